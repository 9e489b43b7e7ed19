#!/usr/bin/env bash
# Builds everything and runs the whole test suite: C++ tests in Release, under ASan+UBSan and under TSan, the
# Python tests against the real daemon and the default model, and half a minute of fuzzing for each fuzz target
# (SLUICE_FUZZ_SECONDS changes that). The last line is the sum:
#   N passed, N failed
# ./test.sh STAGE... runs only some of: house release python asan tsan fuzz
source "$(dirname "${BASH_SOURCE[0]}")/scripts/common.sh"

STAGES=("$@")
[ ${#STAGES[@]} -gt 0 ] || STAGES=(house release python asan tsan fuzz)
REPORTS="$ROOT/build/reports"
FAILED_STAGES=()

prepare() {
  mkdir -p "$ROOT/build" "$REPORTS"
  rm -f "$REPORTS"/*.xml
  install_packages "${BUILD_PACKAGES[@]}" "${TEST_PACKAGES[@]}"
  ensure_venv "$ROOT/build/venv" "$ROOT/tests/requirements.txt"
  SLUICE_TEST_MODEL=$(fetch_model)
  export SLUICE_TEST_MODEL
}

# stage NAME COMMAND...: runs it, notes the time and whether it failed, and goes on.
stage() {
  local name=$1 begin=$SECONDS
  shift
  say "stage $name"
  "$@" || FAILED_STAGES+=("$name")
  say "stage $name took $((SECONDS - begin)) s"
}

# run_ctest PRESET "TARGETS" CTEST_ARGUMENT...
run_ctest() {
  local preset=$1 targets=$2
  shift 2
  build "$preset" $targets
  ctest --test-dir "$ROOT/build/$preset" -j "$(nproc)" --output-on-failure --output-junit "$REPORTS/$preset.xml" "$@"
}

run_pytest() {
  local name=$1
  shift
  SLUICED="$ROOT/build/release/server/sluiced" "$ROOT/build/venv/bin/pytest" -q -p no:cacheprovider \
    --junitxml "$REPORTS/$name.xml" "$@"
}

run_house() { run_pytest house "$ROOT/tests/house"; }
run_release() { run_ctest release all -LE slow; }
run_python() {
  build release all
  local failed=0
  run_pytest python-beside -m "not alone" -n 2 --dist loadfile "$ROOT/tests/server" "$ROOT/tests/engine" || failed=1
  run_pytest python-alone -m alone "$ROOT/tests/server" || failed=1
  return $failed
}
# The comparisons of figures on the whole model run in Release alone: they take the sanitizers many minutes, and
# the same code runs here on small models.
run_asan() {
  ASAN_OPTIONS=detect_leaks=1 UBSAN_OPTIONS=print_stacktrace=1 SLUICE_TEST_SCALE=0.1 \
    run_ctest asan all -LE slow -E '^(golden_test|golden_reference_test|engine_identity_test|engine_reuse_test)$'
}
# What has threads of its own.
TSAN_TESTS="kernels_threads_test engine_base_test engine_test engine_exec_test server_metrics_test server_http_test server_answer_stream_test"
run_tsan() {
  TSAN_OPTIONS="halt_on_error=1 ignore_noninstrumented_modules=1" SLUICE_TEST_SCALE=0.1 \
    run_ctest tsan "$TSAN_TESTS" -R "^(${TSAN_TESTS// /|})\$"
}
# Only the code under test is built, with clang.
run_fuzz() {
  build fuzz fuzzers
  python3 "$ROOT/tests/fuzz/run.py" "$ROOT/build/fuzz" --seconds "${SLUICE_FUZZ_SECONDS:-30}" --report "$REPORTS/fuzz.xml"
}

prepare
for name in "${STAGES[@]}"; do
  stage "$name" "run_$name"
done

[ ${#FAILED_STAGES[@]} -eq 0 ] || say "failed stages: ${FAILED_STAGES[*]}"
# The sum over the reports; a stage that failed before it could run a test counts as one failure.
python3 - "$REPORTS" "${#FAILED_STAGES[@]}" <<'EOF'
import glob, sys, xml.etree.ElementTree as et
passed = failed = 0
for path in glob.glob(sys.argv[1] + "/*.xml"):
    for case in et.parse(path).getroot().iter("testcase"):
        bad = case.find("failure") is not None or case.find("error") is not None or case.get("status") == "fail"
        skipped = case.find("skipped") is not None or case.get("status") in ("notrun", "disabled")
        failed += bad
        if bad:
            print("failed:", case.get("classname") or "", case.get("name"))
            for line in case.findtext("system-out", "").splitlines():
                if line.startswith("[  FAILED  ]") or ": Failure" in line or line.startswith("ERROR: "):
                    print("   ", line)
        passed += not bad and not skipped
failed = max(failed, int(sys.argv[2]))
print(f"{passed} passed, {failed} failed", flush=True)
sys.exit(failed > 0 or passed == 0)
EOF
