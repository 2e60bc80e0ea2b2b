# cmake -DOUT=assets_data.cc -DDIR=dist -DMORE=api.binpb -P embed_assets.cmake: the files of DIR, and MORE, as data of the
# program. The assembler reads them, so that no compiler has to; their hashes make a changed file a changed source.
file(GLOB files "${DIR}/*")
list(SORT files)
list(APPEND files "${MORE}")
set(text "#include \"client/web/assets.h\"\n\n")
set(rows "")
set(i 0)
foreach(file IN LISTS files)
  get_filename_component(name "${file}" NAME)
  file(SHA256 "${file}" hash)
  string(APPEND text "asm(\".pushsection .rodata\\n.balign 16\\nluthier_asset_${i}:\\n.incbin \\\"${file}\\\"\\n\"\n"
                     "    \"luthier_asset_${i}_end:\\n.popsection\\n\");\n"
                     "extern \"C\" __attribute__((visibility(\"hidden\"))) const char luthier_asset_${i}[], luthier_asset_${i}_end[];\n")
  string(APPEND rows "      {\"${name}\", {luthier_asset_${i}, static_cast<size_t>(luthier_asset_${i}_end - luthier_asset_${i})}, \"${hash}\"},\n")
  math(EXPR i "${i} + 1")
endforeach()
string(APPEND text "\nnamespace luthier::web {\n\nconst std::vector<Asset>& Assets() {\n"
                   "  static const auto* const kAssets = new std::vector<Asset>{\n${rows}  };\n  return *kAssets;\n}\n\n}  // namespace luthier::web\n")
file(WRITE "${OUT}" "${text}")
