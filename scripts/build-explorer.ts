/**
 * Copies the two Swagger UI files that the API explorer loads, and their license, into the api module. An installed
 * gateway thus serves them without the library and its install script (docs/decisions/0020-swagger-ui-as-explorer.md).
 */
import { readFileSync } from "node:fs";
import { createRequire } from "node:module";
import { dirname, join } from "node:path";
import { fileURLToPath } from "node:url";
import { replaceFile } from "./replace-file.ts";

const TARGET = fileURLToPath(new URL("../packages/api/dist/explorer", import.meta.url));
const FILES = ["swagger-ui-bundle.js", "swagger-ui.css", "LICENSE"];

function buildExplorer(): void {
  const source = libraryFolder();
  for (const name of FILES) {
    // The source maps are not copied, so the files must not refer to them.
    const text = readFileSync(join(source, name), "utf8").replace(/\n\/[/*]# sourceMappingURL=.*\s*$/, "\n");
    replaceFile(join(TARGET, name), Buffer.from(text));
  }
}

function libraryFolder(): string {
  try {
    return dirname(createRequire(import.meta.url).resolve("swagger-ui-dist/package.json"));
  } catch {
    throw new Error(
      "swagger-ui-dist is not installed, so the API explorer cannot be built. Run `npm ci` and build again.",
    );
  }
}

if (import.meta.main) buildExplorer();
