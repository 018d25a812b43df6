import { expect, test } from "vitest";
import * as client from "../src/index.ts";

test("exports exactly these names", () => {
  expect(Object.keys(client).sort()).toEqual(["createClient", "readSse"]);
});
