// Between the files of this folder.
#pragma once

#include "saddle/analysis/imf/imf.hpp"

namespace saddle::analysis::imf {

// Tables and plots of these flows: attention [B,L,H,S,S] with the names of its layers, kind [B,S].
Result flows_of(const tape::Value& attention, const tape::Value& kind, const std::vector<std::string>& layers,
                const std::vector<Flow>& which);

// For the findings of a page.
inline constexpr const char* reconstruction =
    "The formula of the flow, its three forms and that special tokens do not count are our reconstruction: the text of "
    "the paper was not at hand.";

Result on_model(const ProbedModel& model, Options& options);

}  // namespace saddle::analysis::imf
