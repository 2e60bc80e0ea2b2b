# Which commit this is, for `--version`: an archive of the sources says it in cmake/commit.txt, where git puts it (.gitattributes);
# a checkout asks git at each configuring; -DLUTHIER_COMMIT says it where git can't be asked. One generated file holds it, which is
# linked into programs and nothing else.
file(STRINGS cmake/commit.txt commit LIMIT_COUNT 1)
if(LUTHIER_COMMIT)
  set(commit "${LUTHIER_COMMIT}")
elseif(commit MATCHES "^[0-9a-f]+$")
  string(SUBSTRING "${commit}" 0 12 commit)
else()
  set(commit unknown)
  find_package(Git QUIET)
  if(GIT_FOUND AND EXISTS "${CMAKE_SOURCE_DIR}/.git")
    execute_process(COMMAND "${GIT_EXECUTABLE}" describe --always --dirty --abbrev=12 --exclude=* WORKING_DIRECTORY "${CMAKE_SOURCE_DIR}"
      OUTPUT_VARIABLE described OUTPUT_STRIP_TRAILING_WHITESPACE RESULT_VARIABLE failed ERROR_QUIET)
    if(NOT failed)
      set(commit "${described}")
    endif()
  endif()
endif()
file(CONFIGURE OUTPUT "${CMAKE_BINARY_DIR}/gen/commit.cc" CONTENT [[
namespace luthier::base {
extern const char kBuildCommit[];
const char kBuildCommit[] = "@commit@";
}  // namespace luthier::base
]] @ONLY)
target_sources(luthier_processor_check PRIVATE "${CMAKE_BINARY_DIR}/gen/commit.cc")
