import { readFileSync } from "node:fs";
import { ERROR_CODES } from "@backplane/contract";
import { expect, test } from "vitest";
import { renderErrorsDoc } from "../../../../scripts/errors-doc.ts";
import { verifies } from "../../../../test/support/verifies.ts";
import { renderErrorsPage } from "../../src/pages/errors-page.ts";

const doc = readFileSync(new URL("../../../../docs/errors.md", import.meta.url), "utf8");

verifies(
  "api.errors",
  "docs/errors.md lists every code with status and remedy, and no code that is not in the list",
  () => {
    const rows = doc.split("\n").flatMap((line) => {
      const cells = /^\| `([^`]+)` \| (\d{3}) \| (yes|no) \| (.+?) \| (.+) \|$/.exec(line);
      return cells === null ? [] : [cells.slice(1)];
    });
    const documented = Object.fromEntries(rows.map(([code, ...rest]) => [code, rest]));
    expect(Object.keys(documented).sort()).toEqual(Object.keys(ERROR_CODES).sort());
    for (const [code, spec] of Object.entries(ERROR_CODES)) {
      expect(documented[code]).toEqual([
        String(spec.http),
        spec.retryable ? "yes" : "no",
        spec.what.replaceAll("|", "\\|"),
        spec.remedy.replaceAll("|", "\\|"),
      ]);
    }
    expect(doc).toBe(renderErrorsDoc());
  },
);

test("the page that doc_url points at has an anchor for every code", () => {
  const page = renderErrorsPage();
  const anchors = [...page.matchAll(/<article [^>]*id="([^"]+)"/g)].map((match) => match[1]);
  expect(anchors.sort()).toEqual(Object.keys(ERROR_CODES).sort());
});
