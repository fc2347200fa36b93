#include "text/tools/inject.h"

#include <string>
#include <utility>
#include <vector>

namespace ballast {

namespace {

std::string Text(const Json& message) {
  const auto content = message.find("content");
  return content != message.end() && content->is_string() ? content->get<std::string>()
                                                          : std::string();
}

std::string CallsAsText(const ToolFormat& format, const Json& message) {
  std::vector<std::pair<std::string, std::string>> calls;
  for (const Json& call : message["tool_calls"]) {
    const Json& function = call["function"];
    calls.emplace_back(function["name"].get<std::string>(), DumpJson(function["arguments"]));
  }
  std::string text = Text(message);
  if (!text.empty()) text += "\n";
  return text + WriteToolCalls(format, calls);
}

Json Message(const char* role, std::string content) {
  Json message;
  message["role"] = role;
  message["content"] = std::move(content);
  return message;
}

std::string Described(const ToolFormat& format, const Json& tools) {
  std::string text(format.instructions);
  text += "\n";
  for (const Json& tool : tools) text += "\n" + DumpJson(tool["function"]);
  return text;
}

}  // namespace

Json InjectTools(const ToolFormat& format, const Json& messages, const Json& tools) {
  Json out = Json::array();
  bool after_tool = false;
  for (const Json& message : messages) {
    const std::string role = message["role"].get<std::string>();
    if (role == "tool") {
      std::string result(format.result_open);
      (result += Text(message)) += format.result_close;
      if (after_tool) {
        out.back()["content"] = out.back()["content"].get<std::string>() + "\n" + result;
      } else {
        out.push_back(Message("user", std::move(result)));
      }
      after_tool = true;
      continue;
    }
    // What the user says right after a result joins its turn: many templates want turns to
    // alternate.
    if (after_tool && role == "user") {
      out.back()["content"] = out.back()["content"].get<std::string>() + "\n" + Text(message);
    } else if (role == "assistant" && message.contains("tool_calls")) {
      out.push_back(Message("assistant", CallsAsText(format, message)));
    } else {
      out.push_back(message);
    }
    after_tool = false;
  }
  if (tools.empty()) return out;
  const std::string described = Described(format, tools);
  if (!out.empty() && out.front()["role"] == "system") {
    out.front()["content"] = Text(out.front()) + "\n\n" + described;
  } else {
    out.insert(out.begin(), Message("system", described));
  }
  return out;
}

}  // namespace ballast
