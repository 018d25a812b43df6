import { readFileSync } from "node:fs";
import { ERROR_CODES } from "@backplane/contract";
import { expect, test } from "vitest";
import { renderErrorsDoc } from "../../../../scripts/errors-doc.ts";
import { verifies } from "../../../../test/support/verifies.ts";
import { renderErrorsPage } from "../../src/pages/errors-page.ts";

const doc = readFileSync(new URL("../../../../docs/errors.md", import.meta.url), "utf8");

verifies(
  "api.errors",
  "lists exactly the existing error codes with status and remedy in docs/errors.md",
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
        spec.description.replaceAll("|", "\\|"),
        spec.remedy.replaceAll("|", "\\|"),
      ]);
    }
    expect(doc).toBe(renderErrorsDoc());
  },
);

test("has an anchor for every code on the page that doc_url links to", () => {
  const page = renderErrorsPage();
  const anchors = [...page.matchAll(/<article [^>]*id="([^"]+)"/g)].map((match) => match[1]);
  expect(anchors.sort()).toEqual(Object.keys(ERROR_CODES).sort());
});
