/** Property tests use the same cases in every run, so that a failure can be repeated. */
import fc from "fast-check";

fc.configureGlobal({ seed: 20_260_416 });
