// A small judge of XML for the tests of drawings.
#pragma once

#include <string>

namespace saddle::experiment {

// What is wrong with the document, empty if it is well-formed: one root, tags closed in order, attributes quoted and
// named once, no bare '&' or '<'.
std::string xml_fault(const std::string& text);

}  // namespace saddle::experiment
