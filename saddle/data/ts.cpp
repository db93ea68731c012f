#include "saddle/data/ts.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "saddle/base/text.hpp"
#include "saddle/data/labels.hpp"
#include "saddle/data/number.hpp"
#include "saddle/data/problems.hpp"
#include "saddle/data/records.hpp"

namespace saddle::data {

namespace {

bool blank(char c) { return c == ' ' || c == '\t'; }

// The classes in a message, not all of them if they are many.
std::string listed(const std::vector<std::string>& names) {
  constexpr std::size_t most = 12;
  if (names.size() <= most) return join(names);
  return join(std::vector<std::string>(names.begin(), names.begin() + most)) +
         fmt::format(" and {} more", names.size() - most);
}

// What stands up to the next separator, shortened.
std::string found_text(std::string_view text) {
  const std::string_view word = trimmed(text.substr(0, text.find_first_of(",:")));
  return word.empty() ? "nothing" : fmt::format("'{}{}'", word.substr(0, 40), word.size() > 40 ? ".." : "");
}

// One line of values, without its label.
struct Series {
  std::vector<float> by_channel;  // [channels, length]
  Index channels = 0, length = 0, missing = 0;
};

class LineReader {
 public:
  LineReader(const std::string& file, Missing missing) : file_(file), missing_(missing) {}

  // The values and, behind the last colon, the label if there is to be one; `label` is then not empty.
  void read(const Line& line, bool labelled, Series& series, std::string_view& label) {
    line_ = &line;
    std::string_view text = line.text;
    label = {};
    if (labelled) {
      const std::size_t colon = text.rfind(':');
      if (colon == std::string_view::npos)
        fail(text.data(), "expected ':' and a class label at the end of the series, found no ':'",
             "without labels the header says @classLabel false");
      label = trimmed(text.substr(colon + 1));
      if (label.empty()) fail(text.data() + colon + 1, "found no class label behind the last ':'", "");
      if (const std::size_t at = label.find_first_of(" \t,"); at != std::string_view::npos)
        fail(label.data() + at, fmt::format("the class label '{}' holds a blank or a comma", label.substr(0, 40)),
             "labels are single words");
      text = text.substr(0, colon);
    }
    read_values(text, series);
  }

  [[noreturn]] void fail(const char* where, const std::string& message, const std::string& hint) const {
    throw DataError(file_, line_->number, static_cast<long>(where - line_->text.data()) + 1, message, hint);
  }

 private:
  void read_values(std::string_view text, Series& series) {
    series.by_channel.clear();
    series.channels = series.length = series.missing = 0;
    const char *at = text.data(), *end = at + text.size();
    const auto skip_blanks = [&] {
      while (at != end && blank(*at)) ++at;
    };
    while (true) {
      const char* start = at;
      const std::size_t before = series.by_channel.size();
      while (true) {
        skip_blanks();
        series.by_channel.push_back(value(at, end, series));
        skip_blanks();
        if (at == end || *at == ':') break;
        if (*at != ',') fail(at, fmt::format("expected ',' or ':' after a value, found {}", found_text({at, end})), "");
        ++at;
      }
      end_channel(start, static_cast<Index>(series.by_channel.size() - before), series);
      if (at == end) return;
      ++at;
    }
  }

  float value(const char*& at, const char* end, Series& series) const {
    const std::string_view text(at, static_cast<std::size_t>(end - at));
    std::string_view rest;
    double number = 0;
    const Found found = read_number(text, number, rest);
    if (found == Found::number || found == Found::missing) {
      if (found == Found::missing) {
        if (missing_ == Missing::refuse)
          fail(at, "found a missing value", "choose to interpolate missing values or to set them to zero");
        ++series.missing;
      }
      at = rest.data();
      return static_cast<float>(number);
    }
    if (found == Found::too_large) fail(at, fmt::format("the value {} is too large for a float", found_text(text)), "");
    const bool stamped = text.starts_with("(");
    fail(at, fmt::format("expected a number, ? or NaN, found {}", found_text(text)),
         stamped ? "series with time stamps, such as (0,1.5), are not supported: write the values alone"
                 : "values are separated by ',', channels by ':', the class label stands last");
  }

  void end_channel(const char* start, Index length, Series& series) const {
    if (series.channels == 0) series.length = length;
    ++series.channels;
    if (length != series.length)
      fail(start,
           fmt::format("channel {} has {} values, the first channel has {}", series.channels, length, series.length),
           "all channels of a series have the same length; write ? where a value is missing");
  }

  const std::string& file_;
  Missing missing_;
  const Line* line_ = nullptr;
};

// [channels, length] to [length, channels], with the missing values filled in.
void arrange(const Series& series, Missing policy, std::span<float> into) {
  for (Index c = 0; c < series.channels; ++c)
    for (Index t = 0; t < series.length; ++t)
      into[static_cast<std::size_t>(t * series.channels + c)] =
          series.by_channel[static_cast<std::size_t>(c * series.length + t)];
  if (series.missing > 0) fill_missing(into, series.channels, policy);
}

// Compares every series with the header, and with the first one.
class Consistency {
 public:
  Consistency(const TsHeader& header, Index channels) : header_(header), channels_(channels) {}

  void check(const LineReader& reader, const Line& line, const Series& series) {
    const auto fail = [&](const std::string& message, const std::string& hint) {
      reader.fail(line.text.data(), message, hint);
    };
    if (channels_ > 0 && series.channels != channels_)
      fail(fmt::format("found {} channels, the training file has {}", series.channels, channels_),
           "a model takes the channels it was trained with");
    const TsHeader& h = header_;
    if (h.dimensions.value && series.channels != *h.dimensions.value)
      fail(fmt::format("found {} channels, line {} says @dimensions {}", series.channels, h.dimensions.line,
                       *h.dimensions.value),
           "correct the header or the series; channels are separated by ':'");
    if (h.univariate.value.value_or(false) && series.channels > 1)
      fail(fmt::format("found {} channels, line {} says @univariate true", series.channels, h.univariate.line),
           "correct the header or the series; channels are separated by ':'");
    if (first_line_ == 0) {
      first_line_ = line.number;
      first_channels_ = series.channels;
      first_length_ = series.length;
    }
    if (series.channels != first_channels_)
      fail(
          fmt::format("found {} channels, the series in line {} has {}", series.channels, first_line_, first_channels_),
          "all series have the same channels, separated by ':'");
    if (!h.equal_length.value.value_or(true)) return;
    if (h.series_length.value && series.length != *h.series_length.value)
      fail(fmt::format("found {} steps, line {} says @seriesLength {}", series.length, h.series_length.line,
                       *h.series_length.value),
           "correct the header, or write @equalLength false");
    if (h.equal_length.value && series.length != first_length_)
      fail(fmt::format("found {} steps, the series in line {} has {}, and line {} says @equalLength true",
                       series.length, first_line_, first_length_, h.equal_length.line),
           "correct the series, or write @equalLength false");
  }

 private:
  const TsHeader& header_;
  Index channels_, first_channels_ = 0, first_length_ = 0;
  long first_line_ = 0;
};

class TsReader {
 public:
  TsReader(const ContentsPtr& contents, Description description, const TsOptions& options)
      : contents_(contents),
        options_(options),
        description_(std::move(description)),
        lines_(contents->bytes()),
        header_(read_ts_header(lines_, contents->file())),
        reader_(contents->file(), options.missing),
        consistency_(header_, options.channels) {
    if (options.labels_required && !header_.has_labels())
      throw DataError(contents->file(), header_.labelled.line, 1,
                      "the file has no class labels, and these are needed to train or to evaluate",
                      "use it with 'saddle predict', or add labels and @classLabel true");
    if (options.classes)
      labels_ = Labels(*options.classes);
    else if (!header_.labels.empty())
      labels_ = Labels(header_.labels);
  }

  DatasetPtr read() {
    Line line;
    while (lines_.next(line)) {
      const std::string_view text = trimmed(line.text);
      if (text.empty() || text.front() == '#') continue;
      if (!collect(options_.problems, [&] { read_series(line); })) break;
    }
    if (records_.empty() && (options_.problems == nullptr || options_.problems->empty()))
      throw DataError(contents_->file(), line.number, 0, "found no series after the line @data", "");
    return finish();
  }

 private:
  void read_series(const Line& line) {
    std::string_view label;
    reader_.read(line, header_.has_labels(), series_, label);
    consistency_.check(reader_, line, series_);
    Record record{line.offset, line.text.size(), series_.length, -1};
    if (!label.empty() && (options_.labels_required || label != "?")) record.label = number_of(label);
    missing_ += series_.missing;
    channels_ = series_.channels;
    records_.push_back(record);
    if (contents_->on_disk()) return;
    const std::size_t start = values_.size();
    values_.resize(start + series_.by_channel.size());
    arrange(series_, options_.missing, std::span(values_).subspan(start));
  }

  Index number_of(std::string_view label) {
    const Index number = labels_.number(label);
    if (number >= 0) return number;
    if (const Index same = number_without_case(label); same >= 0) return same;
    const std::string close = nearest(label, labels_.names());
    reader_.fail(label.data(),
                 fmt::format("the class label '{}' is not one of {}: {}", label,
                             options_.classes ? "the training file's"
                                              : fmt::format("those listed in line {}", header_.labelled.line),
                             listed(labels_.names())),
                 close.empty() ? "correct the label, or the list" : fmt::format("did you mean '{}'?", close));
  }

  // Other readers take labels without regard to case, so some files list them in another one.
  Index number_without_case(std::string_view label) {
    const auto same = [](char a, char b) {
      return std::tolower(static_cast<unsigned char>(a)) == std::tolower(static_cast<unsigned char>(b));
    };
    Index number = -1;
    for (const std::string& name : labels_.names()) {
      if (!std::equal(name.begin(), name.end(), label.begin(), label.end(), same)) continue;
      if (number >= 0) return -1;
      number = labels_.number(name);
    }
    return number;
  }

  DatasetPtr finish() {
    const std::vector<Index> became = labels_.fixed() ? std::vector<Index>() : labels_.sort();
    if (!became.empty())
      for (Record& record : records_)
        if (record.label >= 0) record.label = became[static_cast<std::size_t>(record.label)];
    description_.kind = Kind::series;
    description_.channels = channels_;
    description_.classes = labels_.names();
    description_.missing = missing_;
    if (missing_ > 0) description_.notes.push_back(missing_note(missing_, options_.missing));
    if (missing_ > 0 && !header_.missing.value.value_or(true))
      description_.notes.emplace_back("the header says @missing false");
    for (const std::string& note : header_.notes) description_.notes.push_back(note);
    description_.files.push_back(contents_->file());
    Checksum checksum;
    checksum.add(contents_->bytes());
    description_.checksum = checksum.text();
    if (!contents_->on_disk()) return series_in_memory(std::move(description_), std::move(values_), records_);
    return records(std::move(description_), contents_, std::move(records_),
                   [file = contents_->file(), missing = options_.missing, labelled = header_.has_labels()](
                       std::string_view bytes, const Record&, Sample& into) {
                     LineReader reader(file, missing);
                     Series series;
                     std::string_view label;
                     reader.read({bytes, 0, 0}, labelled, series, label);
                     into.values.resize(series.by_channel.size());
                     arrange(series, missing, into.values);
                   });
  }

  const ContentsPtr& contents_;
  const TsOptions& options_;
  Description description_;
  Lines lines_;
  TsHeader header_;
  LineReader reader_;
  Consistency consistency_;
  Labels labels_;
  Series series_;
  std::vector<Record> records_;
  std::vector<float> values_;
  Index missing_ = 0, channels_ = 0;
};

}  // namespace

DatasetPtr read_ts(const ContentsPtr& contents, Description description, const TsOptions& options) {
  return TsReader(contents, std::move(description), options).read();
}

}  // namespace saddle::data
