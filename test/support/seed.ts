/** Property tests draw the same cases in every run: a red one can be repeated, and green means the same everywhere. */
import fc from "fast-check";

fc.configureGlobal({ seed: 20_260_416 });
