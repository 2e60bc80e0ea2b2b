#ifndef LUTHIER_LIB_CRF_FEATURES_DATA_FILE_H_
#define LUTHIER_LIB_CRF_FEATURES_DATA_FILE_H_

#include "lib/base/checkpoint.h"
#include "lib/crf/features/chain_data.h"
#include "lib/data/attribute_text.h"
#include "lib/data/column_text.h"

// Conversion of sequences to bytes and back, for the cache of parsed data (lib/data/data_cache.h).
// LoadChains restores what was saved, except the name. It returns false if the bytes do not fit.
namespace luthier::crf {

void SaveChains(const data::ColumnText& text, base::CheckpointWriter* writer);
bool LoadChains(base::CheckpointReader* reader, data::ColumnText* text);

void SaveChains(const data::AttributeText& text, base::CheckpointWriter* writer);
bool LoadChains(base::CheckpointReader* reader, data::AttributeText* text);

void SaveChains(const ChainData& data, base::CheckpointWriter* writer);
bool LoadChains(base::CheckpointReader* reader, ChainData* data);

}  // namespace luthier::crf

#endif  // LUTHIER_LIB_CRF_FEATURES_DATA_FILE_H_
