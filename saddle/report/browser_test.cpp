// The page in a real browser, at three widths, light and dark: no messages on the console, nothing wider than the
// screen, keys that work, files that stand alone. Pages and pictures stay in the build folder, to be looked at.
#include <gmock/gmock.h>

#include <cstdlib>
#include <nlohmann/json.hpp>
#include <sstream>

#include "places.hpp"
#include "saddle/io/atomic_file.hpp"
#include "saddle/report/checked_json_internal.hpp"
#include "saddle/report/fabricated_test.hpp"
#include "saddle/report/report.hpp"

namespace saddle::report {
namespace {

namespace fs = std::filesystem;
using testing::AllOf;
using testing::HasSubstr;

// The first program of this name on the path; empty if there is none.
std::string program(const std::string& name) {
  const char* path = std::getenv("PATH");
  std::istringstream folders(path == nullptr ? "" : path);
  for (std::string folder; std::getline(folders, folder, ':');)
    if (const fs::path file = fs::path(folder) / name; fs::is_regular_file(file)) return file.string();
  return "";
}

std::string decoded(const std::string& text) {
  std::string out;
  for (std::size_t i = 0; i < text.size(); ++i) {
    const bool escape = text[i] == '%' && i + 2 < text.size();
    out += escape ? static_cast<char>(std::stoi(text.substr(i + 1, 2), nullptr, 16)) : text[i];
    if (escape) i += 2;
  }
  return out;
}

struct View {
  int width;
  bool dark;
};

std::string name_of(const View& view) { return std::to_string(view.width) + (view.dark ? "Dark" : "Light"); }

void PrintTo(const View& view, std::ostream* out) { *out << name_of(view); }

class Browser : public testing::TestWithParam<View> {
 protected:
  void SetUp() override {
    browser_ = program("chromium");
    if (browser_.empty()) GTEST_SKIP() << "there is no chromium on the path (Debian package chromium)";
    try {
      d3_ = read_d3();
    } catch (const std::exception& error) {
      GTEST_SKIP() << error.what();
    }
    fs::create_directories(folder_);
  }

  // The page of all fabricated runs, with the probe in it.
  std::string probed_page() const {
    const ScratchFolder scratch;
    fabricate_comparison(scratch.path());
    PageOptions options;
    options.d3 = d3_;
    options.statistics =
        R"j({"ranks":[{"name":"softmax","rank":2.7},{"name":"softmax+bn(beta=0.6)","rank":1.3},{"name":"<b>x</b>","rank":2}],)j"
        R"j("cliques":[["softmax","<b>x</b>"]],"p_values":[{"a":"softmax","b":"<b>x</b>","p":0.2,"holm":0.4}],"alpha":0.1})j";
    std::string page = comparison_page(read_runs({scratch.path().string()}), options);
    io::write_atomically(folder_ / "page.html", page);
    const std::string guard =
        "<script>window.probeErrors = []; window.probeAlerts = 0; window.alert = () => { ++window.probeAlerts; };\n"
        "window.addEventListener('error', (event) => window.probeErrors.push(event.message));</script>\n";
    page.insert(page.find("<title>"), guard);
    page.insert(page.rfind("</body>"),
                "<script>" + read_text(fs::path(SADDLE_SOURCE_DIR) / "saddle/report/page_probe.js") + "</script>\n");
    return page;
  }

  // Runs the browser; returns what it prints and the messages on its console.
  std::pair<std::string, std::string> run(const std::string& flags, const fs::path& page) const {
    const ScratchFolder profile;
    const fs::path out = profile.path() / "out", err = profile.path() / "err";
    const std::string line =
        "timeout 120 '" + browser_ + "' --headless --no-sandbox --disable-gpu --hide-scrollbars" +
        " --user-data-dir='" + profile.path().string() + "' --virtual-time-budget=20000" +
        " --enable-logging=stderr --blink-settings=preferredColorScheme=" + (GetParam().dark ? "0 " : "1 ") + flags +
        " 'file://" + page.string() + "' >'" + out.string() + "' 2>'" + err.string() + "' </dev/null";
    EXPECT_EQ(std::system(line.c_str()), 0) << read_text(err);
    std::string console;
    std::istringstream lines(read_text(err));
    for (std::string message; std::getline(lines, message);)
      if (message.find("CONSOLE") != std::string::npos) console += message + "\n";
    return {read_text(out), console};
  }

  const fs::path folder_ = fs::path(SADDLE_BINARY_DIR) / "report" / "pages";
  std::string browser_, d3_;
};

TEST_P(Browser, ReadsThePage) {
  const auto [width, dark] = GetParam();
  const std::string name = name_of(GetParam());
  const fs::path page = folder_ / (name + ".html"), frame = folder_ / (name + "-frame.html");
  io::write_atomically(page, probed_page());
  // A window has a least width; a frame has none.
  io::write_atomically(frame,
                       "<!DOCTYPE html><title>frame</title><body style=\"margin:0\"><pre id=\"probe\"></pre>\n"
                       "<iframe src=\"" +
                           name + ".html\" style=\"border:0;height:7000px;width:" + std::to_string(width) +
                           "px\"></iframe>\n<script>addEventListener('message', (event) => "
                           "{ document.getElementById('probe').textContent = event.data; });</script>\n");
  const auto [dom, console] =
      run("--window-size=1700,7000 --dump-dom --screenshot='" + (folder_ / (name + ".png")).string() + "'", frame);
  EXPECT_EQ(console, "");

  const std::string begin = "<pre id=\"probe\">";
  const std::size_t from = dom.find(begin) + begin.size();
  const std::string text = decoded(dom.substr(from, dom.find("</pre>", from) - from));
  ASSERT_FALSE(text.empty()) << console;
  const Json seen = Json::parse(text);

  EXPECT_EQ(seen["errors"], Json::array()) << seen["errors"].dump(2);
  EXPECT_EQ(seen["alerts"], 0);
  EXPECT_EQ(seen["width"], width);
  EXPECT_EQ(seen["theme"], dark ? "dark" : "light");
  EXPECT_EQ(seen["sections"],
            Json({"summary", "curves", "cost", "ranks", "maps", "pooling", "heads", "classes", "derivations", "runs"}));
  EXPECT_GT(seen["derivations"], 20);
  EXPECT_GE(seen["contrast"]["text"], 4.5);
  EXPECT_GE(seen["contrast"]["warning"], 4.5);
  EXPECT_GE(seen["contrast"]["plots"], 3.0);

  ASSERT_EQ(seen["data"].size(), 3u);
  for (const Json& data : seen["data"]) {
    EXPECT_LE(data["overflow"], 0);
    EXPECT_EQ(data["empty"], 0);
    EXPECT_EQ(data["wide"], 0);
    EXPECT_GE(data["rows"], 4);
    EXPECT_THAT(data["cell"].get<std::string>(), AllOf(HasSubstr("3"), HasSubstr(" ± ")));
    EXPECT_NE(data["query"], data["moved"]);
    EXPECT_NE(data["moved"], "");
  }
  EXPECT_TRUE(seen["data"][2]["text"]);  // the label stands there as text

  EXPECT_EQ(seen["sorted"], "descending");
  EXPECT_EQ(seen["hidden"], 1);
  EXPECT_THAT(seen["curve"].get<std::string>(), HasSubstr("epoch 0: "));
  EXPECT_THAT(seen["matrix"].get<std::string>(), HasSubstr(" recognised: "));
  EXPECT_EQ(seen["thumb"], Json({"layer 1, head 2"}));
  EXPECT_LE(seen["opened"], 0);
  EXPECT_EQ(seen["themes"], Json({"light", "dark"}));
  EXPECT_EQ(seen["nameless"], Json::array());
  EXPECT_EQ(seen["unfocusable"], 0);
  EXPECT_EQ(seen["broken"], 0);
  EXPECT_EQ(seen["foreign"], 0);

  EXPECT_GE(seen["plots"], 14);
  ASSERT_EQ(seen["saved"].size(), seen["plots"].get<std::size_t>());
  for (const Json& file : seen["saved"])
    EXPECT_TRUE(file["sound"] && file["styled"] && file["alone"] && file["light"] && file["text"] > 0) << file.dump();
}

INSTANTIATE_TEST_SUITE_P(Widths, Browser,
                         testing::Values(View{360, false}, View{360, true}, View{900, false}, View{900, true},
                                         View{1600, false}, View{1600, true}),
                         [](const auto& view) { return name_of(view.param); });

}  // namespace
}  // namespace saddle::report
