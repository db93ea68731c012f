// Texts as tokens, one sample per line: nested expressions, bytes, pairs of documents, and plain lists of ids.
#pragma once

#include <optional>

#include "saddle/base/error.hpp"
#include "saddle/data/contents.hpp"
#include "saddle/data/dataset.hpp"

namespace saddle::data {

// Fields are separated by tabs; the class label stands first.
enum class TextForm {
  listops,    // one character per token: 0-9, m M d s for [MIN [MAX [MED [SM, ] for the end
  reference,  // ListOps as its makers write it: header "Source Target", expression with blanks and brackets, label last
  bytes,      // text of any kind, also with tabs; id = byte + 1
  pairs,      // two documents as bytes; two fields with their names may stand before them
  // Ids separated by blanks. The first line is "# saddle tokens" and the size of the vocabulary, then may come "#
  // names" with the text of every token from 0, and "# classes"; both separate by tabs.
  tokens
};

// The form of a file with tabs, from its first line, if it is one that can be told.
std::optional<TextForm> text_form_of(std::string_view first_line);

struct TextOptions {
  TextForm form = TextForm::bytes;
  Index skip = 0;                                   // fields between the label and the text
  std::optional<std::vector<std::string>> classes;  // of the training file; without, those of this file
  bool labels_required = true;                      // else "?" is no label
  std::vector<DataError>* problems = nullptr;       // collects what is wrong with single lines instead of throwing it
};

// Samples are decoded when they are read, so the text may stay on the disk.
DatasetPtr read_token_text(const ContentsPtr& contents, Description description, const TextOptions& options);

// Names of the ids: of ListOps, and of bytes.
std::vector<std::string> listops_names();
std::vector<std::string> byte_names();

}  // namespace saddle::data
