// The page: whole, safe against what stands in the data, of bounded size.
#include <gmock/gmock.h>

#include <fstream>

#include <cstdlib>
#include <nlohmann/json.hpp>

#include "saddle/base/error.hpp"
#include "saddle/io/atomic_file.hpp"
#include "saddle/report/checked_json_internal.hpp"
#include "saddle/report/fabricated_test.hpp"
#include "saddle/report/report.hpp"

namespace saddle::report {
namespace {

using testing::AllOf;
using testing::HasSubstr;
using testing::Not;

// Sets an environment variable for one test.
class Variable {
 public:
  Variable(const char* name, const std::string& value) : name_(name) {
    if (const char* before = std::getenv(name)) before_ = before;
    ::setenv(name, value.c_str(), 1);
  }
  ~Variable() {
    if (before_)
      ::setenv(name_, before_->c_str(), 1);
    else
      ::unsetenv(name_);
  }
  Variable(const Variable&) = delete;
  Variable& operator=(const Variable&) = delete;

 private:
  const char* name_;
  std::optional<std::string> before_;
};

class Page : public testing::Test {
 protected:
  Page() { options.d3 = "/* d3js.org */"; }

  void add(const std::string& name, Fabricated run) const { fabricate(scratch_.path() / name, run); }
  std::vector<report::Run> runs() const { return read_runs({scratch_.path().string()}); }
  std::string page() const { return comparison_page(runs(), options); }
  // What the scripts get.
  Json data() const {
    const std::string text = page(), begin = "id=\"report-data\">";
    const std::size_t from = text.find(begin) + begin.size();
    return Json::parse(text.substr(from, text.find("</script>", from) - from));
  }
  static Fabricated small(const std::string& attention = "softmax", Index seed = 0) {
    Fabricated run;
    run.attention.assign(2, attention);
    run.seed = seed, run.layers = 2, run.heads = 2, run.samples = 2, run.epochs = 3, run.classes = 4;
    return run;
  }

  PageOptions options;
  ScratchFolder scratch_;
};

TEST_F(Page, LoadsNothing) {
  add("one", small());
  const std::string text = page();
  EXPECT_THAT(text, HasSubstr("default-src 'none'"));
  for (const char* loader : {"src=", "@import", "url(", "<link rel=\"stylesheet\"", "fetch(", "XMLHttpRequest"})
    EXPECT_THAT(text, Not(HasSubstr(loader))) << loader;
}

TEST_F(Page, NothingInTheDataCanEndItsElement) {
  Fabricated run = small("softmax");
  run.kind = "series";
  run.data = "</script><script>alert(2)</script>";
  add("one", run);
  options.title = "<img src=x onerror=alert(3)>";
  const std::string text = page();
  EXPECT_THAT(text, AllOf(Not(HasSubstr("<script>alert(")), Not(HasSubstr("<img")), Not(HasSubstr("<i>z"))));
  EXPECT_EQ(data()["runs"][0]["data"], run.data);
  EXPECT_EQ(data()["classes"][0][1], "<script>alert(1)</script>");
  EXPECT_EQ(data()["title"], options.title);
}

TEST_F(Page, OwnScriptsNeverReadTextAsHtml) {
  add("one", small());
  EXPECT_THAT(page(),
              AllOf(Not(HasSubstr("innerHTML")), Not(HasSubstr("outerHTML")), Not(HasSubstr("insertAdjacentHTML")),
                    Not(HasSubstr("document.write")), Not(HasSubstr(".html("))));
}

TEST_F(Page, DerivesEveryAttentionOnce) {
  add("a", small("softmax+bn(beta=0.6)", 0));
  add("b", small("softmax+bn(beta=0.6)", 1));
  add("c", small("no_such<b>attention"));
  const std::string text = page();
  const std::string summary = "<summary><code>softmax+<wbr>bn(beta=0.6)</code></summary>";
  EXPECT_NE(text.find(summary), std::string::npos);
  EXPECT_EQ(text.find(summary), text.rfind(summary));
  EXPECT_THAT(text,
              AllOf(HasSubstr("<math"), HasSubstr("no_such&lt;b&gt;attention</code>"), Not(HasSubstr("<b>attention"))));
  EXPECT_THAT(text, HasSubstr("<p>attention 'no_such&lt;b&gt;attention'"));  // why it cannot be derived
}

TEST_F(Page, SeedsShareALabelAndOtherDifferencesShow) {
  add("a", small("softmax", 0));
  add("b", small("softmax", 1));
  Fabricated leaky = small("softmax", 0);
  leaky.protocol = "paper";
  add("c", leaky);
  Fabricated wide = small("softmax", 2);
  wide.heads = 3;
  add("d", wide);
  std::map<std::string, std::string> labels;
  const Json document = data();
  for (const Json& run : document["runs"])
    labels[run["name"].get<std::string>().substr(scratch_.path().filename().string().size() + 1)] = run["label"];
  EXPECT_EQ(labels["a"], "softmax [heads=2]");
  EXPECT_EQ(labels["b"], "softmax [heads=2]");
  EXPECT_EQ(labels["c"], "softmax [heads=2, paper protocol]");
  EXPECT_EQ(labels["d"], "softmax [heads=3]");
}

TEST_F(Page, ASeedCountsOnce) {
  add("a", small("softmax", 0));
  add("b", small("softmax", 0));
  add("c", small("softmax", 1));
  std::vector<std::string> labels;
  const Json document = data();
  for (const Json& run : document["runs"]) labels.push_back(run["label"]);
  EXPECT_THAT(labels, testing::UnorderedElementsAre(testing::EndsWith("/a]"), testing::EndsWith("/b]"), "softmax"));
}

// A layer of its own, such as cat, has no weights to draw.
TEST_F(Page, NoMapsWhereALayerHasNone) {
  add("a", small("softmax", 0));
  EXPECT_FALSE(data()["runs"][0]["inspect"].is_null());
  const auto file = scratch_.path() / "a" / "inspect.json";
  Json inspect = Json::parse(std::ifstream(file));
  for (Json& sample : inspect["samples"]) sample["layers"][0]["heads"] = Json::array();
  io::write_atomically(file, inspect.dump());
  EXPECT_TRUE(data()["runs"][0]["inspect"].is_null());
}

TEST_F(Page, MapsOfOneSeedAndNoMoreThanFit) {
  for (Index seed = 0; seed < 2; ++seed)
    for (const char* attention : {"softmax", "softmax+bn", "linear", "softmax+conv1d"}) {
      Fabricated run;
      run.attention.assign(4, attention);
      run.seed = seed, run.samples = 12;
      add(attention + std::to_string(seed), run);
    }
  const Json document = data();
  std::size_t inspected = 0;
  for (const Json& run : document["runs"])
    if (!run["inspect"].is_null()) {
      ++inspected;
      EXPECT_EQ(run["seed"], 0);
      EXPECT_EQ(run["inspect"]["total"], 12);
      EXPECT_GE(run["inspect"]["samples"].size(), 5u);
      EXPECT_LT(run["inspect"]["samples"].size(), 12u);
    }
  EXPECT_EQ(inspected, 4u);
  EXPECT_EQ(document["inputs"].size(), document["runs"][0]["inspect"]["samples"].size());  // shared by all attentions
  EXPECT_LT(page().size() + 260'000, 3'000'000u);
  options.samples = 2;
  EXPECT_EQ(data()["inputs"].size(), 2u);
  options.samples = 0;
  EXPECT_TRUE(data()["inputs"].empty());
}

TEST_F(Page, TitlesSayWhatIsCompared) {
  add("a", small("softmax"));
  EXPECT_THAT(page(), HasSubstr("<title>softmax on FashionMNIST</title>"));
  add("b", small("linear"));
  EXPECT_EQ(data()["title"], "2 attentions on FashionMNIST");
  Fabricated other = small();
  other.data = "Vowels", other.kind = "series";
  add("c", other);
  EXPECT_EQ(data()["title"], "2 attentions on 2 data sets");
}

TEST_F(Page, StatisticsAreChecked) {
  add("one", small());
  options.statistics = R"({"ranks":[{"name":"a","rank":1},{"name":"b","rank":2}],"cliques":[["a","b"]],)"
                       R"("p_values":[{"a":"a","b":"b","p":0.5,"holm":0.5}],"alpha":0.1,"friedman_p":0.4})";
  EXPECT_EQ(data()["statistics"]["ranks"].size(), 2u);
  const std::pair<const char*, const char*> cases[] = {
      {"[", "statistics:1:2: this is not JSON"},
      {"{}", "statistics: 'ranks' is missing"},
      {R"({"ranks":[{"name":"a"}]})", "statistics: ranks[0]: 'rank' is missing"},
      {R"({"ranks":[{"name":"a","rank":1},{"name":"a","rank":1}]})", "ranks[1].name: this rank stands here twice"},
      {R"({"ranks":[{"name":"a","rank":1}],"cliques":[["b"]]})", "cliques[0][0]: there is no rank of \"b\""}};
  for (const auto& [text, message] : cases) {
    options.statistics = text;
    try {
      page();
      ADD_FAILURE() << text;
    } catch (const DataError& error) {
      EXPECT_THAT(error.what(), HasSubstr(message));
    }
  }
}

TEST_F(Page, NeedsARun) { EXPECT_THROW(comparison_page({}, options), InvalidArgument); }

TEST_F(Page, WithoutD3ThePackageIsNamed) {
  add("one", small());
  options.d3.clear();
  const Variable variable("SADDLE_D3", (scratch_.path() / "d3.min.js").string());
  for (const bool wrong : {false, true}) {
    if (wrong) fabricate(scratch_.path() / "d3.min.js", small());  // a folder, no file
    try {
      page();
      FAIL();
    } catch (const IoError& error) {
      EXPECT_THAT(error.what(), HasSubstr("d3.min.js"));
      EXPECT_THAT(error.hint(), HasSubstr("node-d3"));
    }
  }
}

}  // namespace
}  // namespace saddle::report
