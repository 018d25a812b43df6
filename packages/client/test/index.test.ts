import { expect, test } from "vitest";
import * as client from "../src/index.ts";

test("what the room shows is a decision", () => {
  expect(Object.keys(client).sort()).toEqual(["createClient", "readSse"]);
});
