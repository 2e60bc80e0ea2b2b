#ifndef LUTHIER_LIB_CRF_DATA_FILE_H_
#define LUTHIER_LIB_CRF_DATA_FILE_H_

#include "lib/crf/attribute_text.h"
#include "lib/crf/chain_data.h"
#include "lib/crf/column_text.h"
#include "lib/learn/checkpoint.h"

// Sequences as bytes, for the cache of parsed data (lib/learn/data_cache.h). Load gives what was saved, but for the
// name; false when the bytes do not fit.
namespace luthier::crf {

void SaveChains(const ColumnText& text, learn::CheckpointWriter* writer);
bool LoadChains(learn::CheckpointReader* reader, ColumnText* text);

void SaveChains(const AttributeText& text, learn::CheckpointWriter* writer);
bool LoadChains(learn::CheckpointReader* reader, AttributeText* text);

void SaveChains(const ChainData& data, learn::CheckpointWriter* writer);
bool LoadChains(learn::CheckpointReader* reader, ChainData* data);

}  // namespace luthier::crf

#endif  // LUTHIER_LIB_CRF_DATA_FILE_H_
