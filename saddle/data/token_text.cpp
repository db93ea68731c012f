#include "saddle/data/token_text.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <charconv>

#include "saddle/base/text.hpp"
#include "saddle/data/labels.hpp"
#include "saddle/data/number.hpp"
#include "saddle/data/problems.hpp"
#include "saddle/data/records.hpp"

namespace saddle::data {

namespace {

using Ids = std::vector<std::int32_t>;

constexpr std::string_view listops_letters = "0123456789mMds]";  // in the order of the ids, from 1
constexpr std::array<std::string_view, 15> listops_words = {"0", "1", "2",    "3",    "4",    "5",   "6", "7",
                                                            "8", "9", "[MIN", "[MAX", "[MED", "[SM", "]"};
constexpr std::string_view tokens_mark = "# saddle tokens", names_mark = "# names", classes_mark = "# classes";

// A token that does not belong into its text.
struct BadToken {
  std::size_t at;
  std::string message, hint;
};

std::string shown(std::string_view text) {
  return fmt::format("'{}{}'", text.substr(0, 24), text.size() > 24 ? ".." : "");
}

void encode_listops(std::string_view text, Ids& ids) {
  for (std::size_t i = 0; i < text.size(); ++i) {
    const std::size_t id = listops_letters.find(text[i]);
    if (id == std::string_view::npos)
      throw BadToken{i, fmt::format("found {}, which is no token of ListOps", shown(text.substr(i, 1))),
                     "tokens are 0-9, m, M, d, s and ]"};
    ids.push_back(static_cast<std::int32_t>(id) + 1);
  }
}

template <class Function>
void for_each_word(std::string_view text, const Function& function) {
  for (std::size_t at = 0; (at = text.find_first_not_of(' ', at)) != std::string_view::npos;) {
    const std::size_t end = std::min(text.find(' ', at), text.size());
    function(text.substr(at, end - at), at);
    at = end;
  }
}

void encode_reference(std::string_view text, Ids& ids) {
  for_each_word(text, [&](std::string_view word, std::size_t at) {
    if (word == "(" || word == ")") return;
    const auto* const found = std::find(listops_words.begin(), listops_words.end(), word);
    if (found == listops_words.end())
      throw BadToken{at, fmt::format("found {}, which is no token of ListOps", shown(word)),
                     "tokens are 0-9, [MIN, [MAX, [MED, [SM and ]"};
    ids.push_back(static_cast<std::int32_t>(found - listops_words.begin()) + 1);
  });
}

void encode_bytes(std::string_view text, Ids& ids) {
  for (const char c : text) ids.push_back(static_cast<unsigned char>(c) + 1);
}

void encode_ids(std::string_view text, Index vocabulary, Ids& ids) {
  for_each_word(text, [&](std::string_view word, std::size_t at) {
    std::int32_t id = 0;
    const auto [stop, error] = std::from_chars(word.data(), word.data() + word.size(), id);
    if (error != std::errc{} || stop != word.data() + word.size() || id < 0 || id >= vocabulary)
      throw BadToken{at, fmt::format("expected an id from 0 to {}, found {}", vocabulary - 1, shown(word)),
                     "the first line says how many ids there are"};
    ids.push_back(id);
  });
}

// Where label and documents stand in a line.
struct Fields {
  std::string_view label, first, second;
};

class TextReader {
 public:
  TextReader(const ContentsPtr& contents, Description description, const TextOptions& options)
      : contents_(contents), options_(options), description_(std::move(description)), lines_(contents->bytes()) {
    const bool digits = options.form == TextForm::listops || options.form == TextForm::reference;
    if (options.classes)
      labels_ = Labels(*options.classes);
    else if (digits)
      labels_ = Labels({"0", "1", "2", "3", "4", "5", "6", "7", "8", "9"});
  }

  DatasetPtr read() {
    read_head();
    Line line;
    while (lines_.next(line)) {
      if (line.text.empty()) continue;
      if (!collect(options_.problems, [&] { read_line(line); })) break;
    }
    if (list_.empty() && (options_.problems == nullptr || options_.problems->empty()))
      throw DataError(contents_->file(), 0, 0, "the file holds no samples",
                      "every line is a class label, a tab and a text");
    return finish();
  }

 private:
  [[noreturn]] void fail(const Line& line, const char* where, const std::string& message,
                         const std::string& hint) const {
    throw DataError(contents_->file(), line.number, static_cast<long>(where - line.text.data()) + 1, message, hint);
  }

  void read_head() {
    Line line;
    if (options_.form == TextForm::reference) lines_.next(line);
    if (options_.form != TextForm::tokens) return;
    const bool there = lines_.next(line) && line.text.starts_with(tokens_mark);
    const std::string_view size = there ? trimmed(line.text.substr(tokens_mark.size())) : "";
    const auto [stop, error] = std::from_chars(size.data(), size.data() + size.size(), vocabulary_);
    if (error != std::errc{} || stop != size.data() + size.size() || vocabulary_ < 2)
      throw DataError(contents_->file(), 1, 1, fmt::format("expected '{}' and the size of the vocabulary", tokens_mark),
                      fmt::format("the first line is such as '{} 257'", tokens_mark));
    description_.token_names = marked_line(names_mark);
    if (const std::size_t count = description_.token_names.size();
        count > 0 && static_cast<Index>(count) != vocabulary_)
      throw DataError(contents_->file(), 2, 1,
                      fmt::format("found the names of {} tokens, the vocabulary has {}", count, vocabulary_));
    const std::vector<std::string> classes = marked_line(classes_mark);
    if (!classes.empty() && !options_.classes) labels_ = Labels(classes);
  }

  // The fields of the next line, if it begins with this mark.
  std::vector<std::string> marked_line(std::string_view mark) {
    Lines ahead = lines_;
    Line line;
    std::vector<std::string> fields;
    if (!ahead.next(line) || !line.text.starts_with(mark)) return fields;
    lines_ = ahead;
    const std::string_view rest = line.text.substr(mark.size());
    for (std::size_t at = 0; at < rest.size();) {
      const std::size_t end = std::min(rest.find('\t', at + 1), rest.size());
      fields.emplace_back(rest.substr(at + 1, end - at - 1));
      at = end;
    }
    return fields;
  }

  Fields fields_of(const Line& line) const {
    std::vector<std::string_view> parts;
    const bool pairs = options_.form == TextForm::pairs, reference = options_.form == TextForm::reference;
    const std::size_t before = 1 + static_cast<std::size_t>(options_.skip);
    std::string_view rest = line.text;
    // The last field of a text may hold tabs itself.
    for (std::size_t tab = 0;
         (pairs || reference || parts.size() < before) && (tab = rest.find('\t')) != std::string_view::npos;) {
      parts.push_back(rest.substr(0, tab));
      rest.remove_prefix(tab + 1);
    }
    parts.push_back(rest);
    const auto expect = [&](bool right, const char* what) {
      if (!right)
        fail(line, line.text.data(), fmt::format("expected {}, found {} fields", what, parts.size()),
             "fields are separated by tabs");
    };
    if (reference) {
      expect(parts.size() == 2, "an expression and its value");
      return {trimmed(parts[1]), parts[0], {}};
    }
    if (pairs) {
      expect(parts.size() == 3 || parts.size() == 5, "a label and two documents");
      return {trimmed(parts[0]), parts[parts.size() - 2], parts.back()};
    }
    expect(parts.size() == before + 1, options_.skip > 0 ? "a label, other fields and a text" : "a label and a text");
    return {trimmed(parts[0]), parts.back(), {}};
  }

  void encode(std::string_view text, Ids& ids) const {
    ids.clear();
    switch (options_.form) {
      case TextForm::listops: return encode_listops(text, ids);
      case TextForm::reference: return encode_reference(text, ids);
      case TextForm::bytes:
      case TextForm::pairs: return encode_bytes(text, ids);
      case TextForm::tokens: return encode_ids(text, vocabulary_, ids);
    }
  }

  Index checked_length(const Line& line, std::string_view text) {
    const bool bytes = options_.form == TextForm::bytes || options_.form == TextForm::pairs;
    try {
      if (!bytes) encode(text, ids_);
    } catch (const BadToken& bad) {
      fail(line, text.data() + bad.at, bad.message, bad.hint);
    }
    const auto length = static_cast<Index>(bytes ? text.size() : ids_.size());
    if (length == 0) fail(line, text.data(), "found no tokens, the text is empty", "remove the line or give it a text");
    return length;
  }

  void read_line(const Line& line) {
    const Fields fields = fields_of(line);
    Record record{line.offset, line.text.size(), checked_length(line, fields.first), -1};
    if (options_.form == TextForm::pairs) record.length = std::max(record.length, checked_length(line, fields.second));
    if (fields.label.empty())
      fail(line, line.text.data(), "found no class label", "the label stands first in the line");
    if (options_.labels_required || fields.label != "?") {
      record.label = labels_.number(fields.label);
      if (record.label < 0)
        fail(line, fields.label.data(),
             fmt::format("the class label '{}' is not one of {}", fields.label, join(labels_.names())), "");
    }
    list_.push_back(record);
  }

  void describe() {
    switch (options_.form) {
      case TextForm::listops:
      case TextForm::reference: description_.token_names = listops_names(); break;
      case TextForm::bytes:
      case TextForm::pairs: description_.token_names = byte_names(); break;
      case TextForm::tokens: description_.vocabulary = vocabulary_; break;
    }
    if (options_.form != TextForm::tokens)
      description_.vocabulary = static_cast<Index>(description_.token_names.size());
    description_.kind = options_.form == TextForm::pairs ? Kind::pair : Kind::tokens;
    description_.classes = labels_.names();
    description_.files.push_back(contents_->file());
    Checksum checksum;
    checksum.add(contents_->bytes());
    description_.checksum = checksum.text();
  }

  DatasetPtr finish() {
    if (!labels_.fixed()) {
      const std::vector<Index> became = labels_.sort();
      for (Record& record : list_)
        if (record.label >= 0) record.label = became[static_cast<std::size_t>(record.label)];
    }
    describe();
    const auto reader = std::make_shared<TextReader>(contents_, Description(),
                                                     TextOptions{options_.form, options_.skip, {}, true, nullptr});
    reader->vocabulary_ = vocabulary_;
    return records(std::move(description_), contents_, std::move(list_),
                   [reader](std::string_view bytes, const Record&, Sample& into) {
                     const Fields fields = reader->fields_of({bytes, 0, 0});
                     reader->encode(fields.first, into.tokens);
                     into.length = static_cast<Index>(into.tokens.size());
                     if (reader->options_.form == TextForm::pairs) reader->encode(fields.second, into.second);
                   });
  }

  ContentsPtr contents_;
  TextOptions options_;
  Description description_;
  Lines lines_;
  Index vocabulary_ = 0;
  Labels labels_;
  std::vector<Record> list_;
  Ids ids_;
};

}  // namespace

std::optional<TextForm> text_form_of(std::string_view first_line) {
  if (first_line.starts_with(tokens_mark)) return TextForm::tokens;
  if (first_line.starts_with("Source\tTarget")) return TextForm::reference;
  const std::size_t tab = first_line.find('\t');
  if (tab != 1 || first_line.size() < 3) return std::nullopt;
  const std::string_view text = first_line.substr(2);
  const bool listops =
      first_line[0] >= '0' && first_line[0] <= '9' && text.find_first_not_of(listops_letters) == std::string_view::npos;
  return listops ? std::optional(TextForm::listops) : std::nullopt;
}

std::vector<std::string> listops_names() {
  std::vector<std::string> names{"<pad>"};
  names.insert(names.end(), listops_words.begin(), listops_words.end());
  return names;
}

std::vector<std::string> byte_names() {
  std::vector<std::string> names{"<pad>"};
  for (int byte = 0; byte < 256; ++byte)
    names.push_back(byte >= ' ' && byte < 0x7f ? std::string(1, static_cast<char>(byte))
                                               : fmt::format("\\x{:02x}", byte));
  return names;
}

DatasetPtr read_token_text(const ContentsPtr& contents, Description description, const TextOptions& options) {
  return TextReader(contents, std::move(description), options).read();
}

}  // namespace saddle::data
