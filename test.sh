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
# What the stages build, each by its own CMake preset.
TSAN_TESTS="kernels_threads_test engine_base_test engine_test engine_exec_test server_metrics_test server_http_test server_answer_stream_test"
declare -A TARGETS=([release]=all [asan]=all [tsan]="$TSAN_TESTS" [fuzz]=fuzzers)

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

# Most tests keep one core busy at most: meanwhile the others build, at the lowest priority, what later stages need.
AHEAD=
build_ahead() {
  local presets=() name later=
  for name in "${STAGES[@]}"; do
    [ -z "$later" ] || [ -z "${TARGETS[$name]:-}" ] || presets+=("$name")
    [ "$name" != "$1" ] || later=yes
  done
  [ ${#presets[@]} -gt 0 ] || return 0
  set -m  # a process group of its own, which can be stopped as a whole
  (
    renice -n 19 -p "$BASHPID" >/dev/null
    for name in "${presets[@]}"; do build "$name" ${TARGETS[$name]}; done
  ) >"$REPORTS/build-ahead.log" 2>&1 &
  AHEAD=$!
  set +m
}
# Half-built folders are no harm: what is left is built by whoever needs it.
stop_building_ahead() {
  [ -n "$AHEAD" ] || return 0
  kill -TERM -- "-$AHEAD" 2>/dev/null || true
  wait "$AHEAD" 2>/dev/null || true
  AHEAD=
}
trap stop_building_ahead EXIT

# build_stage NAME: builds what it needs, with nothing beside it.
build_stage() {
  stop_building_ahead
  build "$1" ${TARGETS[$1]}
}

# run_ctest PRESET CTEST_ARGUMENT...
run_ctest() {
  local preset=$1
  shift
  build_stage "$preset" || return 1
  build_ahead "$preset"
  ctest --test-dir "$ROOT/build/$preset" --output-on-failure --output-junit "$REPORTS/$preset.xml" "$@"
}

run_pytest() {
  local name=$1
  shift
  SLUICED="$ROOT/build/release/server/sluiced" "$ROOT/build/venv/bin/pytest" -q -p no:cacheprovider \
    --junitxml "$REPORTS/$name.xml" "$@"
}

run_house() { run_pytest house "$ROOT/tests/house"; }
run_release() { run_ctest release -LE slow; }
run_python() {
  build_stage release || return 1
  build_ahead python
  run_pytest python "$ROOT/tests/server" "$ROOT/tests/engine"
}
# The comparisons of figures on the whole model run in Release alone: they take the sanitizers many minutes, and
# the same code runs here on small models.
run_asan() {
  ASAN_OPTIONS=detect_leaks=1 UBSAN_OPTIONS=print_stacktrace=1 SLUICE_TEST_SCALE=0.1 \
    run_ctest asan -LE slow -E '^(golden_test|golden_reference_test|engine_identity_test|engine_reuse_test)$'
}
# What has threads of its own.
run_tsan() {
  TSAN_OPTIONS="halt_on_error=1 ignore_noninstrumented_modules=1" SLUICE_TEST_SCALE=0.1 \
    run_ctest tsan -R "^(${TSAN_TESTS// /|})\$"
}
# Only the code under test is built, with clang.
run_fuzz() {
  build_stage fuzz || return 1
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
