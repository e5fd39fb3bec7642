// Public report vllm-project/vllm#27486: the template wrote BOS and the encoder added a second one. Seen to
// fail with special tokens added to templated text in encode_prompt, and with none added to raw text.
#include <gtest/gtest.h>

#include <algorithm>

#include "engine/prompt.h"
#include "engine/scripted_engine.h"

namespace loft {
namespace {

using namespace scripted;

constexpr const char* kWithBos = "{{ bos_token }}{% for m in messages %}<|{{ m.role }}|>{{ m.content }}{% endfor %}";
constexpr const char* kWithoutBos = "{% for m in messages %}<|{{ m.role }}|>{{ m.content }}{% endfor %}";

Vocabulary vocabulary(const std::string& bos) {
  return {.pieces = {"x"}, .specials = {"<bos>", "<eos>"}, .bos = bos, .eos = "<eos>"};
}

std::vector<int32_t> chat_ids(const Tokenizer& tokenizer, const char* chat_template) {
  const OrderedJson messages = OrderedJson::array({{{"role", "user"}, {"content", "hi"}}});
  const std::string text =
      render_chat(ChatTemplate::parse(chat_template, "template"), tokenizer, {.messages = &messages});
  return encode_prompt(tokenizer, text, PromptKind::Templated);
}

int64_t n_bos(const std::vector<int32_t>& ids, const Vocabulary& v) {
  return std::count(ids.begin(), ids.end(), v.special(0));
}

TEST(RegressA06, AChatPromptHasTheOneBosThatItsTemplateWrites) {
  const Vocabulary v = vocabulary("<bos>");
  const auto ids = chat_ids(*make_tokenizer(v), kWithBos);
  EXPECT_EQ(ids[0], v.special(0));
  EXPECT_EQ(n_bos(ids, v), 1);
}

TEST(RegressA06, ATemplateThatWritesNoneGetsNoneAsInTransformers) {
  const Vocabulary v = vocabulary("<bos>");
  EXPECT_EQ(n_bos(chat_ids(*make_tokenizer(v), kWithoutBos), v), 0);
}

TEST(RegressA06, ARawCompletionGetsOneWhenTheTokenizerSaysSo) {
  const Vocabulary v = vocabulary("<bos>");
  const auto ids = encode_prompt(*make_tokenizer(v), "The sky is", PromptKind::Raw);
  EXPECT_EQ(ids[0], v.special(0));
  EXPECT_EQ(n_bos(ids, v), 1);
  EXPECT_EQ(ids.size(), 11u);
}

TEST(RegressA06, ATokenizerWithoutBosGivesNone) {
  const Vocabulary v = vocabulary("");
  const auto tokenizer = make_tokenizer(v);
  EXPECT_EQ(n_bos(encode_prompt(*tokenizer, "The sky is", PromptKind::Raw), v), 0);
  EXPECT_EQ(n_bos(chat_ids(*tokenizer, kWithBos), v), 0) << "an unnamed bos_token renders as nothing";
}

}  // namespace
}  // namespace loft
