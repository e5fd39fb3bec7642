// model: a folder of dense safetensors to an MLX checkpoint. What enters: Hugging Face files. What leaves: the same
// tensors under the same names with MLX's metadata, the float ones cast when asked for, and copies of the small files.
#include "core/error.h"
#include "model/convert_steps.h"

namespace loft {

ConvertReport convert_dense(const ConvertRequest& request, const std::filesystem::path&, const ProgressFn&) {
  fail(Code::Unsupported, "{}: folders cannot be converted yet", request.src.string());
}

}  // namespace loft
