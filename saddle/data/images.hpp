// Images that are stored as bytes: IDX files, and records of a label and its pixels.
#pragma once

#include <optional>

#include "saddle/data/contents.hpp"
#include "saddle/data/dataset.hpp"

namespace saddle::data {

// IDX, as of MNIST: one file with images, one with labels, which may be missing. `classes` are those of the training
// file, or the names of 0, 1, ..; without, the numbers up to the largest label.
DatasetPtr read_idx(const ContentsPtr& images, const ContentsPtr& labels, Description description,
                    std::optional<std::vector<std::string>> classes);

// What becomes of a pixel: a number in [0,1], or a token. The published id of a token is its grey value, so black is 0,
// which is padding and masked; shifted ids are larger by one, so that black is seen.
enum class Pixels { image, published, shifted };

// One label byte, then channels x rows x columns bytes.
struct PixelRecord {
  Index channels = 1, rows = 0, columns = 0;
  double white = 255;  // the byte that becomes 1
  Pixels pixels = Pixels::image;
  Index shrink = 1;  // of tokens: a pixel is the mean grey of shrink x shrink of the file; divides rows and columns
};

// Colour becomes grey when pixels become tokens. Throws DataError if the bytes are no whole number of records, or a
// label is none of the classes.
DatasetPtr read_pixel_records(const ContentsPtr& contents, Description description, const PixelRecord& format,
                              const std::vector<std::string>& classes);

// The grey value of a colour as the pipeline of Long Range Arena computes it, in single precision.
int grey_value(int red, int green, int blue);

// "0" .. "9" for 10.
std::vector<std::string> numbered_classes(Index count);

}  // namespace saddle::data
