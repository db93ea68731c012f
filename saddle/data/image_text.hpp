// Images with texts in a safetensors file: images (n,channels,rows,columns), tokens (n,T) and labels (n).
#pragma once

#include <filesystem>
#include <optional>

#include "saddle/data/dataset.hpp"

namespace saddle::data {

// images are bytes, or float32 from 0 to 1; tokens are i64 or i32, 0 behind the end of a text; labels, which may be
// missing, too, -1 where one is not known. Metadata `classes` and `tokens` name them, separated by tabs; without, they
// are numbers up to the largest. `like` is the training split's description if the file is not the training split.
// Throws DataError.
DatasetPtr read_image_text(const std::filesystem::path& file, Description description, const Description* like,
                           bool labels_required);

// As such a file, with images of bytes. Throws InvalidArgument for names that cannot stand in it.
void write_image_text(const Dataset& data, const std::filesystem::path& file);

}  // namespace saddle::data
