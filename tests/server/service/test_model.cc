#include "tests/server/service/test_model.h"

#include "base/check.h"
#include "server/text/load_text.h"

namespace trireme::server {

ServedModel IdsOnlyTestModel() {
  ServedModel model;
  model.name = "text_llama";
  model.model_type = "llama";
  model.dtype = "float32";
  model.vocab_size = kTestVocabulary;
  model.max_model_len = 1024;
  model.eos_token_ids = {507};
  model.pad_token_id = 505;
  model.supports_tp_plan = true;
  model.valid_tp_degrees = {1, 2, 4};
  return model;
}

ServedModel TextTestModel() {
  ServedModel model = IdsOnlyTestModel();
  absl::StatusOr<TextModel> text = LoadTextFromFolder(TRIREME_FIXTURES "/hf/text_llama");
  CHECK_OK(text.status());
  model.text = *std::move(text);
  return model;
}

}  // namespace trireme::server
