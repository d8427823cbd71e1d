#include "sharding/families/families.h"

#include <algorithm>
#include <array>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "sharding/families/llama.h"

namespace trireme::sharding {
namespace {

using nlohmann::json;

std::string Dump(const json& value) { return value.dump(-1, ' ', true, json::error_handler_t::replace); }

std::string KnownModelTypes() {
  std::vector<std::string> names;
  for (const Family& family : Families()) names.emplace_back(family.model_type);
  return absl::StrJoin(names, ", ");
}

bool Lists(const json& architectures, std::string_view wanted) {
  return architectures.is_array() && std::any_of(architectures.begin(), architectures.end(), [&](const json& name) {
           return name.is_string() && name.get<std::string>() == wanted;
         });
}

}  // namespace

std::span<const Family> Families() {
  static const std::array families = {LlamaFamily()};
  return families;
}

absl::StatusOr<const Family*> FindFamily(const json& config) {
  if (!config.is_object()) return absl::InvalidArgumentError("config.json is not a JSON object");
  const json model_type = config.value("model_type", json());
  for (const Family& family : Families()) {
    if (!model_type.is_string() || model_type.get<std::string>() != family.model_type) continue;
    const json architectures = config.value("architectures", json());
    if (architectures.is_null() || Lists(architectures, family.architecture)) return &family;
    return absl::InvalidArgumentError(absl::StrCat("config.json: architectures is ", Dump(architectures),
                                                   "; of model_type ", std::string(family.model_type), " only ",
                                                   std::string(family.architecture), " is supported"));
  }
  return absl::InvalidArgumentError(
      absl::StrCat("config.json: model_type is ", Dump(model_type), "; supported are ", KnownModelTypes()));
}

}  // namespace trireme::sharding
