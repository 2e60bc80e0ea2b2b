#include "lib/crf/features/data_file.h"

#include <string>
#include <vector>

#include "lib/data/attribute_text.h"

namespace luthier::crf {
namespace {

void SaveInterner(const data::Interner& interner, base::CheckpointWriter* writer) {
  // Writes the same bytes as Texts, without a copy of all texts.
  writer->U64(static_cast<uint64_t>(interner.size()));
  for (int32_t k = 0; k < interner.size(); ++k) writer->Text(interner.text(k));
}

bool LoadInterner(base::CheckpointReader* reader, data::Interner* interner) {
  *interner = data::Interner(reader->Texts());
  return reader->ok() && interner->ok();
}

}  // namespace

void SaveChains(const data::ColumnText& text, base::CheckpointWriter* writer) {
  writer->U64(static_cast<uint64_t>(text.columns));
  SaveInterner(text.strings, writer);
  SaveInterner(text.label_names, writer);
  writer->Array(text.sequence_start);
  writer->Array(text.cell);
  writer->Array(text.label);
  writer->Array(text.line);
}

bool LoadChains(base::CheckpointReader* reader, data::ColumnText* text) {
  text->columns = static_cast<int>(reader->U64());
  if (!LoadInterner(reader, &text->strings) || !LoadInterner(reader, &text->label_names)) return false;
  text->sequence_start = reader->Array<int64_t>();
  text->cell = reader->Array<int32_t>();
  text->label = reader->Array<int32_t>();
  text->line = reader->Array<int32_t>();
  return reader->ok() && text->columns >= 1 && text->sequence_start.size() >= 2 &&
         text->sequence_start.back() == text->tokens() && text->line.size() == text->label.size() &&
         text->cell.size() == text->label.size() * static_cast<size_t>(text->columns);
}

void SaveChains(const data::AttributeText& text, base::CheckpointWriter* writer) {
  SaveInterner(text.attributes, writer);
  SaveInterner(text.label_names, writer);
  writer->Array(text.sequence_start);
  writer->Array(text.token_start);
  writer->Array(text.attribute);
  writer->Array(text.value);
  writer->Array(text.label);
  writer->Array(text.line);
}

bool LoadChains(base::CheckpointReader* reader, data::AttributeText* text) {
  if (!LoadInterner(reader, &text->attributes) || !LoadInterner(reader, &text->label_names)) return false;
  text->sequence_start = reader->Array<int64_t>();
  text->token_start = reader->Array<int64_t>();
  text->attribute = reader->Array<int32_t>();
  text->value = reader->Array<double>();
  text->label = reader->Array<int32_t>();
  text->line = reader->Array<int32_t>();
  return reader->ok() && text->sequence_start.size() >= 2 && text->sequence_start.back() == text->tokens() &&
         text->token_start.size() == text->label.size() + 1 &&
         text->token_start.back() == static_cast<int64_t>(text->attribute.size()) &&
         text->value.size() == text->attribute.size() && text->line.size() == text->label.size();
}

void SaveChains(const ChainData& data, base::CheckpointWriter* writer) {
  writer->U64(static_cast<uint64_t>(data.attributes));
  writer->Texts(data.label_names);
  writer->Texts(data.unknown_names);
  writer->Array(data.sequence_start);
  writer->Array(data.token_start);
  writer->Array(data.attribute);
  writer->Array(data.value);
  writer->Array(data.label);
}

bool LoadChains(base::CheckpointReader* reader, ChainData* data) {
  data->attributes = static_cast<int32_t>(reader->U64());
  data->label_names = reader->Texts();
  data->unknown_names = reader->Texts();
  data->sequence_start = reader->Array<int64_t>();
  data->token_start = reader->Array<int64_t>();
  data->attribute = reader->Array<int32_t>();
  data->value = reader->Array<double>();
  data->label = reader->Array<int32_t>();
  return reader->ok() && !data->sequence_start.empty() && data->sequence_start.back() == data->tokens() &&
         data->token_start.size() == data->label.size() + 1 &&
         (data->value.empty() || data->value.size() == data->attribute.size()) &&
         data->token_start.back() == static_cast<int64_t>(data->attribute.size());
}

}  // namespace luthier::crf
