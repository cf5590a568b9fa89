# Installs the libraries, their headers, and what find_package(wholestep) and pkg-config read. The tool installs itself.
include(CMakePackageConfigHelpers)

# The public headers are C++20; who links the installed library learns it here.
target_compile_features(wholestep PUBLIC cxx_std_20)
install(TARGETS wholestep EXPORT wholestep
        LIBRARY DESTINATION ${CMAKE_INSTALL_LIBDIR} INCLUDES DESTINATION ${CMAKE_INSTALL_INCLUDEDIR})
# Loadable parts are looked for beside the core.
if(TARGET wholestep_cpu)
  set_target_properties(wholestep_cpu PROPERTIES INSTALL_RPATH "$ORIGIN")
  install(TARGETS wholestep_cpu LIBRARY DESTINATION ${CMAKE_INSTALL_LIBDIR})
endif()
install(DIRECTORY include/wholestep ${generated}/include/wholestep DESTINATION ${CMAKE_INSTALL_INCLUDEDIR}
        FILES_MATCHING PATTERN "*.h")

set(package_dir ${CMAKE_INSTALL_LIBDIR}/cmake/wholestep)
install(EXPORT wholestep NAMESPACE wholestep:: FILE wholestep-targets.cmake DESTINATION ${package_dir})
configure_package_config_file(cmake/wholestep-config.cmake.in ${generated}/wholestep-config.cmake
                              INSTALL_DESTINATION ${package_dir})
# Until 1.0 a new minor version may change the interface.
write_basic_package_version_file(${generated}/wholestep-config-version.cmake COMPATIBILITY SameMinorVersion)
install(FILES ${generated}/wholestep-config.cmake ${generated}/wholestep-config-version.cmake DESTINATION ${package_dir})

# The prefix in wholestep.pc is found from where the file lies, so that an installed tree can be moved.
set(pkgconfig_dir ${CMAKE_INSTALL_LIBDIR}/pkgconfig)
file(RELATIVE_PATH pkgconfig_to_prefix ${CMAKE_INSTALL_PREFIX}/${pkgconfig_dir} ${CMAKE_INSTALL_PREFIX})
configure_file(cmake/wholestep.pc.in ${generated}/wholestep.pc @ONLY)
install(FILES ${generated}/wholestep.pc DESTINATION ${pkgconfig_dir})

if(WHOLESTEP_TESTS)
  add_test(NAME install.AConsumerBuildsAndRunsAgainstAnInstalledTree
           COMMAND ${CMAKE_COMMAND} -DBUILD_DIR=${PROJECT_BINARY_DIR} -DLIBDIR=${CMAKE_INSTALL_LIBDIR}
                   -DVERSION=${PROJECT_VERSION} -DCXX=${CMAKE_CXX_COMPILER} -DSANITIZE=${WHOLESTEP_SANITIZE}
                   -DCPU=$<BOOL:${WHOLESTEP_CPU}> -DTOOL=$<TARGET_EXISTS:wholestep_cli>
                   -P ${PROJECT_SOURCE_DIR}/tests/install/install_test.cmake)
  set_tests_properties(install.AConsumerBuildsAndRunsAgainstAnInstalledTree PROPERTIES TIMEOUT 600)
endif()
