# `cmake --install` and the Debian packages that `cpack` makes: luthier (the command line), luthier-server, luthier-worker.

include(GNUInstallDirs)

install(TARGETS luthier RUNTIME DESTINATION "${CMAKE_INSTALL_BINDIR}" COMPONENT luthier)
install(TARGETS luthierd RUNTIME DESTINATION "${CMAKE_INSTALL_BINDIR}" COMPONENT server)
install(TARGETS luthier-worker RUNTIME DESTINATION "${CMAKE_INSTALL_BINDIR}" COMPONENT worker)

# The C++ client for programs outside of this tree: find_package(luthier), luthier::client, #include "client/cpp/client.h".
set(exported luthier_base luthier_pareto luthier_study luthier_wire luthier_proto luthier_service_proto luthier_client)
foreach(target ${exported})
  string(REGEX REPLACE "^luthier_" "" short "${target}")
  set_target_properties(${target} PROPERTIES EXPORT_NAME ${short})
  target_include_directories(${target} INTERFACE "$<INSTALL_INTERFACE:${CMAKE_INSTALL_INCLUDEDIR}/luthier>")
endforeach()
set(package "${CMAKE_INSTALL_LIBDIR}/cmake/luthier")
install(TARGETS ${exported} EXPORT luthier_targets ARCHIVE DESTINATION "${CMAKE_INSTALL_LIBDIR}" COMPONENT dev)
install(EXPORT luthier_targets FILE luthier-targets.cmake NAMESPACE luthier:: DESTINATION "${package}" COMPONENT dev)
foreach(folder lib/base lib/study lib/wire client/cpp)
  install(DIRECTORY ${folder} DESTINATION "${CMAKE_INSTALL_INCLUDEDIR}/luthier/${folder}/.." COMPONENT dev
    FILES_MATCHING PATTERN "*.h")
endforeach()
install(DIRECTORY "${CMAKE_BINARY_DIR}/gen/luthier/v1" DESTINATION "${CMAKE_INSTALL_INCLUDEDIR}/luthier/luthier" COMPONENT dev
  FILES_MATCHING PATTERN "*.h")
include(CMakePackageConfigHelpers)
write_basic_package_version_file(luthier-config-version.cmake COMPATIBILITY SameMinorVersion)
install(FILES cmake/luthier-config.cmake "${CMAKE_CURRENT_BINARY_DIR}/luthier-config-version.cmake"
  DESTINATION "${package}" COMPONENT dev)

# What the program itself writes: completions and the manual page.
foreach(made "completion bash|share/bash-completion/completions/luthier" "completion zsh|share/zsh/site-functions/_luthier"
             "completion fish|share/fish/vendor_completions.d/luthier.fish" "manual|share/man/man1/luthier.1")
  string(REGEX REPLACE "\\|.*" "" verb "${made}")
  string(REGEX REPLACE ".*\\|" "" file "${made}")
  string(REPLACE " " ";" verb "${verb}")
  install(CODE "
    set(file \"\$ENV{DESTDIR}\${CMAKE_INSTALL_PREFIX}/${file}\")
    message(STATUS \"Installing: \${file}\")
    get_filename_component(folder \"\${file}\" DIRECTORY)
    file(MAKE_DIRECTORY \"\${folder}\")
    execute_process(COMMAND \"$<TARGET_FILE:luthier>\" ${verb} OUTPUT_FILE \"\${file}\" COMMAND_ERROR_IS_FATAL ANY)"
    COMPONENT luthier)
endforeach()

# The units name the programs where they are installed.
foreach(unit luthierd:server luthier-worker:worker)
  string(REGEX REPLACE ":.*" "" name "${unit}")
  string(REGEX REPLACE ".*:" "" component "${unit}")
  install(CODE "
    file(READ \"${CMAKE_SOURCE_DIR}/deploy/systemd/${name}.service\" text)
    string(REPLACE /usr/local/share/doc/luthier/ \"\${CMAKE_INSTALL_PREFIX}/share/doc/luthier-${component}/\" text \"\${text}\")
    string(REPLACE /usr/local \"\${CMAKE_INSTALL_PREFIX}\" text \"\${text}\")
    set(file \"\$ENV{DESTDIR}\${CMAKE_INSTALL_PREFIX}/lib/systemd/system/${name}.service\")
    message(STATUS \"Installing: \${file}\")
    file(WRITE \"\${file}\" \"\${text}\")"
    COMPONENT ${component})
  install(FILES docs/guide/operations.md DESTINATION share/doc/luthier-${component} COMPONENT ${component})
endforeach()

set(CPACK_GENERATOR DEB)
set(CPACK_PACKAGE_NAME luthier)
set(CPACK_PACKAGE_VENDOR luthier)
set(CPACK_PACKAGE_CONTACT "The developers of luthier <luthier@localhost>")
set(CPACK_PACKAGING_INSTALL_PREFIX /usr)
set(CPACK_STRIP_FILES ON)
set(CPACK_DEB_COMPONENT_INSTALL ON)
set(CPACK_COMPONENTS_ALL luthier server worker)
set(CPACK_DEBIAN_FILE_NAME DEB-DEFAULT)
set(CPACK_DEBIAN_PACKAGE_SHLIBDEPS ON)
set(CPACK_DEBIAN_PACKAGE_SECTION science)
set(CPACK_COMPONENT_LUTHIER_DESCRIPTION "Hyperparameter tuning: states studies, runs them, shows what came out")
set(CPACK_COMPONENT_SERVER_DESCRIPTION "Hyperparameter tuning: the coordinator, luthierd, and its unit")
set(CPACK_COMPONENT_WORKER_DESCRIPTION "Hyperparameter tuning: the worker and its unit")
set(CPACK_DEBIAN_LUTHIER_PACKAGE_NAME luthier)
set(CPACK_DEBIAN_SERVER_PACKAGE_NAME luthier-server)
set(CPACK_DEBIAN_WORKER_PACKAGE_NAME luthier-worker)
# `luthier run` starts workers.
set(CPACK_DEBIAN_LUTHIER_PACKAGE_DEPENDS luthier-worker)
include(CPack)
