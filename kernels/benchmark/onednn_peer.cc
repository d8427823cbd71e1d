#include "kernels/benchmark/onednn_peer.h"

#include "oneapi/dnnl/dnnl.hpp"

extern "C" void omp_set_num_threads(int num_threads);

namespace trireme::kernels::cpu {

using dnnl::memory;

struct OneDnnFloatProduct::State {
  dnnl::engine engine{dnnl::engine::kind::cpu, 0};
  dnnl::stream stream{engine};
  dnnl::matmul::primitive_desc description;
  dnnl::matmul primitive;
  memory weight;
};

OneDnnFloatProduct::OneDnnFloatProduct(const float* weight, std::int64_t rows, std::int64_t n, std::int64_t k)
    : state_(std::make_unique<State>()) {
  omp_set_num_threads(1);
  constexpr auto kFloat = memory::data_type::f32;
  const memory::desc x({rows, k}, kFloat, memory::format_tag::ab), out({rows, n}, kFloat, memory::format_tag::ab);
  const memory::desc any({k, n}, kFloat, memory::format_tag::any), plain({k, n}, kFloat, memory::format_tag::ba);
  state_->description = dnnl::matmul::primitive_desc(dnnl::matmul::desc(x, any, out), state_->engine);
  state_->primitive = dnnl::matmul(state_->description);
  memory from(plain, state_->engine, const_cast<float*>(weight));
  state_->weight = memory(state_->description.weights_desc(), state_->engine);
  dnnl::reorder(from, state_->weight).execute(state_->stream, from, state_->weight);
  state_->stream.wait();
}

OneDnnFloatProduct::~OneDnnFloatProduct() = default;

void OneDnnFloatProduct::Multiply(const float* x, float* out) {
  const auto of = [&](const memory::desc& d, const float* data) {
    return memory(d, state_->engine, const_cast<float*>(data));
  };
  state_->primitive.execute(state_->stream, {{DNNL_ARG_SRC, of(state_->description.src_desc(), x)},
                                             {DNNL_ARG_WEIGHTS, state_->weight},
                                             {DNNL_ARG_DST, of(state_->description.dst_desc(), out)}});
  state_->stream.wait();
}

}  // namespace trireme::kernels::cpu
