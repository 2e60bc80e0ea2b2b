#ifndef LUTHIER_LIB_CRF_DATA_FILE_H_
#define LUTHIER_LIB_CRF_DATA_FILE_H_

#include "lib/crf/chain_data.h"
#include "lib/crf/column_text.h"
#include "lib/learn/checkpoint.h"

// Sequences as bytes, for the cache of parsed data (lib/learn/data_cache.h). Load gives what was saved, but for the
// name; false when the bytes do not fit.
namespace luthier::crf {

void SaveText(const ColumnText& text, learn::CheckpointWriter* writer);
bool LoadText(learn::CheckpointReader* reader, ColumnText* text);

void SaveData(const ChainData& data, learn::CheckpointWriter* writer);
bool LoadData(learn::CheckpointReader* reader, ChainData* data);

}  // namespace luthier::crf

#endif  // LUTHIER_LIB_CRF_DATA_FILE_H_
