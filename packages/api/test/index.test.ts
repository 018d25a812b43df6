import { expect, test } from "vitest";
import * as api from "../src/index.ts";

test("exports createApi and createMetrics only", () => {
  expect(Object.keys(api).sort()).toEqual(["createApi", "createMetrics"]);
});
