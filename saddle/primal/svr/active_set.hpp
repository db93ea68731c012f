// The exact end of an SVR solve: guess which multipliers are free, solve for them, correct the guess.
#pragma once

#include <vector>

#include "saddle/primal/svr/channel.hpp"

namespace saddle::primal::svr {

// Primal-dual active set rounds from the guess `states` [M], beta [M], b; each adds one to `iterations`, the best
// point seen goes to `best`. True when the states agree with their own solution, which is then exact up to rounding;
// false as soon as the guess stops improving: a better one is then cheaper than more rounds.
bool refine_active_set(const Problem& problem, std::vector<State> states, Eigen::VectorXd beta, double b,
                       int& iterations, Candidate& best);

}  // namespace saddle::primal::svr
