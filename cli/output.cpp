#include "output.hpp"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include <cerrno>
#include <csignal>
#include <cstdlib>
#include <cstring>
#include <nlohmann/json.hpp>

#include "saddle/base/error.hpp"
#include "saddle/io/atomic_file.hpp"

namespace saddle::cli {

namespace {

struct Terminal {
  bool present = false, colour = false;
  std::size_t width = 100;
};

const Terminal& terminal() {
  static const Terminal value = [] {
    Terminal t;
    t.present = isatty(STDOUT_FILENO) == 1;
    const char* no_colour = std::getenv("NO_COLOR");
    const char* kind = std::getenv("TERM");
    t.colour = t.present && (no_colour == nullptr || *no_colour == '\0') &&
               (kind == nullptr || std::strcmp(kind, "dumb") != 0);
    winsize size{};
    if (t.present && ioctl(STDOUT_FILENO, TIOCGWINSZ, &size) == 0 && size.ws_col >= 40) t.width = size.ws_col;
    return t;
  }();
  return value;
}

std::string painted(std::string_view text, std::string_view code) {
  return terminal().colour ? fmt::format("\033[{}m{}\033[0m", code, text) : std::string(text);
}

// False if the reader has gone.
bool write_all(int descriptor, std::string_view text) {
  while (!text.empty()) {
    const ssize_t written = ::write(descriptor, text.data(), text.size());
    if (written >= 0) {
      text.remove_prefix(static_cast<std::size_t>(written));
    } else if (errno == EPIPE) {
      return false;
    } else if (errno != EINTR) {
      throw IoError(fmt::format("cannot write the result to stdout: {}", std::strerror(errno)),
                    "direct stdout to a place that takes it");
    }
  }
  return true;
}

}  // namespace

void prepare_output() {
  std::signal(SIGPIPE, SIG_IGN);
  for (int descriptor = 0; descriptor < 3; ++descriptor)
    if (fcntl(descriptor, F_GETFD) == -1)
      // Opened the wrong way round: what writes to a closed stdout must still learn that it cannot.
      static_cast<void>(::open("/dev/null", descriptor == 0 ? O_WRONLY : O_RDONLY));
}

void print(std::string_view text) {
  static bool reader = true;
  if (reader) reader = write_all(STDOUT_FILENO, text);
}

std::string json_text(std::string_view schema, const Json& document) {
  Json whole{{"schema", schema}};
  whole.update(document);
  whole["schema"] = schema;
  return whole.dump(2, ' ', false, Json::error_handler_t::replace) + "\n";
}

void print_json(std::string_view schema, const Json& document) { print(json_text(schema, document)); }

void print_or_write(const std::string& file, std::string_view text) {
  if (file.empty() || file == "-") {
    print(text);
  } else {
    io::write_atomically(file, text);
  }
}

void print_message(std::string_view text) {
  try {
    write_all(STDERR_FILENO, text);
  } catch (const IoError&) {  // nobody is left to tell
  }
}

void print_error(std::string_view message, std::string_view hint) {
  print_message(fmt::format("saddle: {}\nhint: {}\n", message, hint));
}

std::string bold(std::string_view text) { return painted(text, "1"); }
std::string dim(std::string_view text) { return painted(text, "2"); }
std::string green(std::string_view text) { return painted(text, "32"); }
std::string red(std::string_view text) { return painted(text, "31"); }

std::size_t display_width(std::string_view text) {
  std::size_t width = 0;
  for (std::size_t i = 0; i < text.size(); ++i) {
    if (text[i] == '\033') {
      while (i < text.size() && text[i] != 'm') ++i;
    } else if ((static_cast<unsigned char>(text[i]) & 0xc0u) != 0x80u) {
      ++width;
    }
  }
  return width;
}

std::string wrap(std::string_view text, std::size_t indent) {
  const std::size_t width = std::max(terminal().width, indent + 24);
  const std::string margin(indent, ' ');
  std::string out;
  std::size_t column = 0;  // 0: nothing on this line yet
  const auto end_line = [&] {
    out += "\n";
    column = 0;
  };
  while (!text.empty()) {
    const std::size_t stop = text.find_first_of(" \n");
    const std::string_view word = text.substr(0, stop);
    if (!word.empty()) {
      const std::size_t size = display_width(word);
      if (column > 0 && column + 1 + size > width) end_line();
      out += column == 0 ? margin : " ";
      column += (column == 0 ? indent : 1) + size;
      out += word;
    }
    if (stop == std::string_view::npos) break;
    if (text[stop] == '\n') end_line();
    text.remove_prefix(stop + 1);
  }
  if (column > 0) end_line();
  return out;
}

Table::Table(std::vector<std::string> header, std::string alignment)
    : alignment_(std::move(alignment)), rows_{std::move(header)} {}

void Table::add(std::vector<std::string> row) { rows_.push_back(std::move(row)); }

void Table::note(std::string text) { rows_.push_back({std::move(text)}); }

std::string Table::text(std::size_t indent) const {
  const std::size_t columns = rows_.front().size();
  std::vector<std::size_t> widths(columns, 0);
  for (const auto& row : rows_)
    if (row.size() == columns)
      for (std::size_t c = 0; c < columns; ++c) widths[c] = std::max(widths[c], display_width(row[c]));
  std::size_t before_last = indent;
  for (std::size_t c = 0; c + 1 < columns; ++c) before_last += widths[c] + 2;

  std::string out;
  for (std::size_t r = 0; r < rows_.size(); ++r) {
    const auto& row = rows_[r];
    if (row.size() != columns) {
      out += wrap(row.front(), indent + 4);
      continue;
    }
    std::string line(indent, ' ');
    for (std::size_t c = 0; c < columns; ++c) {
      const std::string padding(widths[c] - display_width(row[c]), ' ');
      const bool right = alignment_[c] == 'r';
      const bool last = c + 1 == columns;
      if (last && !right && terminal().present) {
        const std::string wrapped = wrap(row[c], before_last);
        line += wrapped.empty() ? "" : wrapped.substr(before_last, wrapped.size() - before_last - 1);
      } else {
        line += (right ? padding : "") + row[c] + (right ? "" : padding) + (last ? "" : "  ");
      }
    }
    line.erase(line.find_last_not_of(' ') + 1);
    out += (r == 0 ? bold(line) : line) + "\n";
  }
  return out;
}

namespace {

// Three digits and a prefix of the thousands.
std::string scaled(double value, std::string_view unit) {
  static constexpr std::string_view prefixes[] = {"", "k", "M", "G", "T", "P", "E"};
  std::size_t p = 0;
  while (std::abs(value) >= 999.5 && p + 1 < std::size(prefixes)) value /= 1000, ++p;
  const std::string suffix = std::string(prefixes[p]) + std::string(unit);
  return fmt::format("{:.3g}{}{}", value, suffix.empty() ? "" : " ", suffix);
}

}  // namespace

std::string count_text(double value) { return scaled(value, ""); }
std::string bytes_text(double bytes) { return scaled(bytes, "B"); }
std::string seconds_text(double seconds) {
  if (seconds >= 1) return fmt::format("{:.3g} s", seconds);
  if (seconds >= 1e-3) return fmt::format("{:.3g} ms", seconds * 1e3);
  return fmt::format("{:.3g} us", seconds * 1e6);
}
std::string error_text(double error) { return error == 0 ? "0" : fmt::format("{:.1e}", error); }
std::string number_text(double value) { return fmt::format("{:.6g}", value); }

}  // namespace saddle::cli
