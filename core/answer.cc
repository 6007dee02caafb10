#include "answer.h"

namespace gd2fs::serve {
namespace {

/// These answer one response item, however many were asked for.
bool is_answered_once(wire::Op op) {
  return op == wire::Op::exists || op == wire::Op::list || op == wire::Op::ping ||
         op == wire::Op::drain || op == wire::Op::why || op == wire::Op::configure ||
         wire::item_bytes(op) == 0;
}

}  // namespace

void answer_all(wire::Bytes& out, std::uint64_t request, wire::Op op, std::size_t items,
                Status status) {
  std::vector<wire::ResponseItem> answers(is_answered_once(op) ? 1 : items);
  for (std::size_t index = 0; index < answers.size(); ++index) {
    answers[index].item = static_cast<std::uint16_t>(index);
    answers[index].status = status;
  }
  if (op == wire::Op::meta) {
    const std::vector<wire::MetaBody> bodies(answers.size());
    wire::encode_meta_response(out, request, answers, bodies);
  } else {
    wire::encode_response(out, request, answers);
  }
}

}  // namespace gd2fs::serve
