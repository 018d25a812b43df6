import { expect, test } from "vitest";
import { parseSourceVersion } from "../../src/pypi/resolve-wheels.ts";

test("reads the version of a source archive from its name", () => {
  expect(parseSourceVersion("acme-demo-1.0.tar.gz", "acme-demo")).toBe("1.0");
  expect(parseSourceVersion("Acme.Demo-1.0rc1.zip", "acme-demo")).toBe("1.0rc1");
  expect(parseSourceVersion("acme-demo-extra-1.0.tar.gz", "acme-demo")).toBe(null);
  expect(parseSourceVersion("acme_demo-1.0-py3-none-any.whl", "acme-demo")).toBe(null);
});
