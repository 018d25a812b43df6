import { expect, test } from "vitest";
import * as api from "../src/index.ts";

test("what the room shows is a decision", () => {
  expect(Object.keys(api).sort()).toEqual(["createApi", "createMetrics"]);
});
