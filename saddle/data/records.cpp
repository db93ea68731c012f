#include "saddle/data/records.hpp"

#include <algorithm>

namespace saddle::data {

namespace {

std::size_t at(Index i) { return static_cast<std::size_t>(i); }

void measure(const Dataset& data, Description& description) {
  for (Index i = 0; i < data.size(); ++i) {
    const Index length = data.length(i);
    description.min_length = i == 0 ? length : std::min(description.min_length, length);
    description.max_length = i == 0 ? length : std::max(description.max_length, length);
  }
}

class Records final : public Dataset {
 public:
  Records(Description description, ContentsPtr contents, std::vector<Record> list, Decode decode)
      : description_(std::move(description)),
        contents_(std::move(contents)),
        list_(std::move(list)),
        decode_(std::move(decode)) {
    measure(*this, description_);
  }
  const Description& description() const override { return description_; }
  Index size() const override { return static_cast<Index>(list_.size()); }
  Index label(Index sample) const override { return list_[at(sample)].label; }
  Index length(Index sample) const override { return list_[at(sample)].length; }
  void read(Index sample, Sample& into) const override {
    const Record& record = list_[at(sample)];
    into.values.clear();
    into.tokens.clear();
    into.second.clear();
    into.times.clear();
    into.length = record.length;
    into.label = record.label;
    decode_(contents_->bytes().substr(record.offset, record.size), record, into);
  }

 private:
  Description description_;
  ContentsPtr contents_;
  std::vector<Record> list_;
  Decode decode_;
};

class SeriesInMemory final : public Dataset {
 public:
  SeriesInMemory(Description description, std::vector<float> values, const std::vector<Record>& list)
      : description_(std::move(description)), values_(std::move(values)) {
    starts_.reserve(list.size() + 1);
    labels_.reserve(list.size());
    starts_.push_back(0);
    for (const Record& record : list) {
      starts_.push_back(starts_.back() + record.length);
      labels_.push_back(record.label);
    }
    measure(*this, description_);
  }
  const Description& description() const override { return description_; }
  Index size() const override { return static_cast<Index>(labels_.size()); }
  Index label(Index sample) const override { return labels_[at(sample)]; }
  Index length(Index sample) const override { return starts_[at(sample) + 1] - starts_[at(sample)]; }
  void read(Index sample, Sample& into) const override {
    const float* start = values_.data() + starts_[at(sample)] * description_.channels;
    into.values.assign(start, start + length(sample) * description_.channels);
    into.length = length(sample);
    into.label = label(sample);
  }

 private:
  Description description_;
  std::vector<float> values_;
  std::vector<Index> starts_, labels_;  // starts in steps
};

class Subset final : public Dataset {
 public:
  Subset(DatasetPtr data, std::vector<Index> samples, std::string split, std::string note)
      : data_(std::move(data)), samples_(std::move(samples)), description_(data_->description()) {
    description_.split = std::move(split);
    if (!note.empty()) description_.notes.push_back(std::move(note));
    measure(*this, description_);
  }
  const Description& description() const override { return description_; }
  Index size() const override { return static_cast<Index>(samples_.size()); }
  Index label(Index sample) const override { return data_->label(samples_[at(sample)]); }
  Index length(Index sample) const override { return data_->length(samples_[at(sample)]); }
  void read(Index sample, Sample& into) const override { data_->read(samples_[at(sample)], into); }

 private:
  DatasetPtr data_;
  std::vector<Index> samples_;
  Description description_;
};

class Concatenated final : public Dataset {
 public:
  Concatenated(std::vector<DatasetPtr> parts, std::string checksum)
      : parts_(std::move(parts)), description_(parts_.front()->description()) {
    ends_.reserve(parts_.size());
    Index end = 0;
    for (const DatasetPtr& part : parts_) {
      ends_.push_back(end += part->size());
      if (part == parts_.front()) continue;
      const auto& files = part->description().files;
      description_.files.insert(description_.files.end(), files.begin(), files.end());
    }
    description_.checksum = std::move(checksum);
    measure(*this, description_);
  }
  const Description& description() const override { return description_; }
  Index size() const override { return ends_.back(); }
  Index label(Index sample) const override {
    const Dataset& own = part(sample);
    return own.label(sample);
  }
  Index length(Index sample) const override {
    const Dataset& own = part(sample);
    return own.length(sample);
  }
  void read(Index sample, Sample& into) const override {
    const Dataset& own = part(sample);
    own.read(sample, into);
  }

 private:
  // The part with this sample, which becomes its number there.
  const Dataset& part(Index& sample) const {
    const auto found = std::upper_bound(ends_.begin(), ends_.end(), sample) - ends_.begin();
    if (found > 0) sample -= ends_[at(found - 1)];
    return *parts_[at(found)];
  }

  std::vector<DatasetPtr> parts_;
  Description description_;
  std::vector<Index> ends_;
};

}  // namespace

DatasetPtr records(Description description, ContentsPtr contents, std::vector<Record> list, Decode decode) {
  return std::make_shared<Records>(std::move(description), std::move(contents), std::move(list), std::move(decode));
}

DatasetPtr series_in_memory(Description description, std::vector<float> values, const std::vector<Record>& list) {
  return std::make_shared<SeriesInMemory>(std::move(description), std::move(values), list);
}

DatasetPtr concatenated(std::vector<DatasetPtr> parts, std::string checksum) {
  return std::make_shared<Concatenated>(std::move(parts), std::move(checksum));
}

DatasetPtr subset(DatasetPtr data, std::vector<Index> samples, std::string split, std::string note) {
  return std::make_shared<Subset>(std::move(data), std::move(samples), std::move(split), std::move(note));
}

}  // namespace saddle::data
