#include "saddle/train/tabular/masks.hpp"

#include <algorithm>
#include <cmath>
#include <map>
#include <numeric>

#include "saddle/mechanisms/npt/npt.hpp"
#include "saddle/mechanisms/npt/optimiser.hpp"

namespace saddle::train::tabular {

namespace {

std::vector<int64_t> offsets_of(const std::vector<nn::NptColumn>& columns) {
  std::vector<int64_t> offsets{0};
  for (const nn::NptColumn& column : columns) offsets.push_back(offsets.back() + column.width + 1);
  return offsets;
}

// 1 at the entries, of [rows, columns].
void mark(Tensor& mask, const std::vector<Index>& entries) {
  float* const data = mask.data_ptr<float>();
  for (const Index entry : entries) data[entry] = 1;
}

bool is_input(Part part, Part pass, const run::TableSettings& settings) {
  return settings.rows == "all" || part <= pass;
}

Pass blank(const std::vector<Part>& parts, const Tensor& encoded, Index columns, Part pass,
           const run::TableSettings& settings) {
  const auto n = static_cast<Index>(parts.size());
  Pass blank{encoded.clone(), torch::zeros({n, columns}), torch::zeros({n, columns}), {}};
  for (Index row = 0; row < n; ++row)
    if (is_input(parts[static_cast<std::size_t>(row)], pass, settings)) blank.rows.push_back(row);
  return blank;
}

}  // namespace

Chosen choose_entries(std::vector<Index> candidates, double share, const run::TableSettings& settings, Stream& stream) {
  if (share >= 1) return {std::move(candidates), {}};
  const auto all = static_cast<double>(candidates.size());
  const double drawn = std::trunc(share * all + std::sqrt(all * share * (1 - share)) * stream.normal());
  const auto count = static_cast<std::size_t>(std::clamp(drawn, 0.0, all));
  for (std::size_t i = 0; i < count; ++i)
    std::swap(candidates[i], candidates[i + static_cast<std::size_t>(stream.below(candidates.size() - i))]);
  const auto replaced =
      candidates.begin() +
      mechanisms::npt::randomised_count(static_cast<Index>(count), settings.hidden_share, settings.exact_share);
  return {{replaced, candidates.begin() + static_cast<std::ptrdiff_t>(count)}, {candidates.begin(), replaced}};
}

void hide(Tensor& encoded, const std::vector<nn::NptColumn>& columns, const Chosen& chosen, Stream& stream) {
  const auto offsets = offsets_of(columns);
  const auto d = static_cast<Index>(columns.size());
  const auto entry_at = [&](Index entry) {
    const auto column = static_cast<std::size_t>(entry % d);
    float* const at = encoded.data_ptr<float>() + (entry / d) * offsets.back() + offsets[column];
    std::fill_n(at, columns[column].width + 1, 0.0F);
    return at;
  };
  for (const Index entry : chosen.hidden) entry_at(entry)[columns[static_cast<std::size_t>(entry % d)].width] = 1;
  for (const Index entry : chosen.replaced) {
    const nn::NptColumn& column = columns[static_cast<std::size_t>(entry % d)];
    float* const at = entry_at(entry);
    if (column.categorical) {
      at[stream.below(static_cast<std::uint64_t>(column.width))] = 1;
    } else {
      at[0] = static_cast<float>(stream.normal());
    }
  }
}

Pass training_pass(const std::vector<double>& values, const std::vector<Part>& parts, const Tensor& encoded,
                   const std::vector<nn::NptColumn>& columns, const run::TableSettings& settings, Stream& stream) {
  const auto d = static_cast<Index>(columns.size());
  Pass pass = blank(parts, encoded, d, Part::train, settings);
  std::vector<Index> candidates, others;  // targets that train, and those that nobody may see
  for (const Index row : pass.rows) {
    const Index entry = row * d + d - 1;
    if (parts[static_cast<std::size_t>(row)] != Part::train) {
      others.push_back(entry);
    } else if (!std::isnan(values[static_cast<std::size_t>(entry)])) {
      candidates.push_back(entry);
    }
  }
  const Chosen targets = choose_entries(candidates, settings.mask_targets, settings, stream);
  mark(pass.targets, targets.hidden);
  mark(pass.targets, targets.replaced);
  hide(pass.seen, columns, targets, stream);
  hide(pass.seen, columns, {others, {}}, stream);
  if (settings.mask_features <= 0) return pass;
  Tensor taken = pass.targets.clone();
  mark(taken, others);
  const float* const is_taken = taken.data_ptr<float>();
  std::vector<Index> features;
  for (const Index row : pass.rows)
    for (Index entry = row * d; entry < (row + 1) * d; ++entry)
      if (is_taken[entry] == 0 && !std::isnan(values[static_cast<std::size_t>(entry)])) features.push_back(entry);
  const Chosen chosen = choose_entries(std::move(features), settings.mask_features, settings, stream);
  mark(pass.features, chosen.hidden);
  mark(pass.features, chosen.replaced);
  hide(pass.seen, columns, chosen, stream);
  return pass;
}

Pass scoring_pass(const std::vector<double>& values, const std::vector<Part>& parts, const Tensor& encoded,
                  const std::vector<nn::NptColumn>& columns, const run::TableSettings& settings, Part scored) {
  const auto d = static_cast<Index>(columns.size());
  Pass pass = blank(parts, encoded, d, scored, settings);
  std::vector<Index> counted, hidden;
  for (const Index row : pass.rows) {
    const Index entry = row * d + d - 1;
    const Part part = parts[static_cast<std::size_t>(row)];
    if (part == scored && !std::isnan(values[static_cast<std::size_t>(entry)])) counted.push_back(entry);
    if (part >= scored || settings.mask_targets >= 1) hidden.push_back(entry);
  }
  mark(pass.targets, counted);
  Stream none(0, "none");
  hide(pass.seen, columns, {hidden, {}}, none);
  return pass;
}

double share_at(const run::TableSettings& settings, Index t, Index total) {
  const double first = settings.feature_share;
  if (first < 0 || settings.share_schedule == "constant") return first;
  if (settings.share_schedule == "cosine") return mechanisms::npt::feature_share(first, t, total);
  return first * (1 - std::min(1.0, static_cast<double>(std::max<Index>(t - 1, 0)) / static_cast<double>(total)));
}

std::vector<std::vector<Index>> batches_of(const std::vector<Index>& rows, const std::vector<Part>& parts,
                                           const std::vector<Index>& groups, Index most, Stream& stream) {
  const auto count = std::max<Index>(1, (static_cast<Index>(rows.size()) + most - 1) / most);
  std::map<std::pair<Part, Index>, std::vector<Index>> members;
  for (const Index row : rows) {
    const auto at = static_cast<std::size_t>(row);
    const bool grouped = !groups.empty() && parts[at] == Part::train;
    members[{parts[at], grouped ? groups[at] : 0}].push_back(row);
  }
  std::vector<std::vector<Index>> batches(static_cast<std::size_t>(count));
  // Of each kind the next batch after the last one that got a row goes on: sizes differ by one at most.
  std::size_t next = 0;
  for (auto& [kind, list] : members) {
    stream.shuffle(list);
    for (const Index row : list) batches[next++ % batches.size()].push_back(row);
  }
  for (auto& batch : batches) std::sort(batch.begin(), batch.end());
  return batches;
}

}  // namespace saddle::train::tabular
