#ifndef LUTHIER_BENCH_LAB_CRF_METHODS_H_
#define LUTHIER_BENCH_LAB_CRF_METHODS_H_

namespace luthier::crf::lab {

// Registers the methods of Ahmed 2018, section 2.7.1, that are there to compare with: "saga2", "saga_literal" and
// "saga2_literal" (average_gradient.h), "hybrid" (ChainHybrid), "sg", "asg", "pegasos" and "adagrad"
// (StochasticGradient), "smd" (ChainMetaDescent), "oeg" (ExponentiatedGradient). To be called once, before the first
// training.
void RegisterMethods();

}  // namespace luthier::crf::lab

#endif  // LUTHIER_BENCH_LAB_CRF_METHODS_H_
