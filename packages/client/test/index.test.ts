import { expect, test } from "vitest";
import * as client from "../src/index.ts";

test("exports only createClient and readSse", () => {
  expect(Object.keys(client).sort()).toEqual(["createClient", "readSse"]);
});
