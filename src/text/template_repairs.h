// Role: known mistakes in chat templates that model files carry, and their repair. One list: a
// mistake is an exact piece of source, so that nothing else is ever touched.
// Thread: any.
#ifndef BALLAST_TEXT_TEMPLATE_REPAIRS_H_
#define BALLAST_TEXT_TEMPLATE_REPAIRS_H_

#include <string>
#include <vector>

namespace ballast {

/// Repairs `source` in place. @returns what was repaired, one sentence each; empty as a rule.
std::vector<std::string> RepairChatTemplate(std::string* source);

}  // namespace ballast

#endif  // BALLAST_TEXT_TEMPLATE_REPAIRS_H_
