#ifndef LUTHIER_LIB_CATALOGUE_PARAMETER_INFO_H_
#define LUTHIER_LIB_CATALOGUE_PARAMETER_INFO_H_

#include <string>
#include <vector>

#include "lib/catalogue/objective_info.h"

namespace luthier::catalogue {

// Makes a setting of an objective.
ParameterInfo Make(std::string name, ParameterKind kind, std::string description, study::ParameterValue default_value,
                   bool tunable);
// Makes a numeric setting whose suggested range is the legal one.
ParameterInfo MakeNumber(std::string name, ParameterKind kind, std::string description, double default_value,
                         bool tunable, double min, double max);
// Makes `l2`, which every trial needs: legal from 1/most to `most`, suggested from 1/usual to `usual`.
ParameterInfo MakeL2(double most, double usual);
// Adds `unroll` and `unroll_steps`: iterative differentiation in place of training to the optimum.
void AddUnroll(ObjectiveInfo* info);
// Adds `intercept` and `standardize`, tunable switches that are on by default. `intercept` describes the first one.
void AddRowSwitches(ObjectiveInfo* info, std::string intercept);
// Adds `gradient`, an optional setting; if it is absent the search decides.
void AddGradientOption(ObjectiveInfo* info);
// Adds the options that say how a file of rows is read: format, header, label, labels_file. `label`: what a label is,
// in the plural.
void AddReadOptions(ObjectiveInfo* info, const std::string& label);
// Makes a categorical setting whose default is the first label.
ParameterInfo MakeChoice(std::string name, std::string description, std::vector<std::string> labels, bool tunable);

}  // namespace luthier::catalogue

#endif  // LUTHIER_LIB_CATALOGUE_PARAMETER_INFO_H_
