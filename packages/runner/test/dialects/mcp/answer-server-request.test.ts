import { expect, test } from "vitest";
import { answerAll } from "../../../src/dialects/mcp/answer-server-request.ts";

test("a server asks only so much at one time", async () => {
  const questions = (count: number) =>
    Object.fromEntries(Array.from({ length: count }, (_, n) => [`q${n}`, { method: "roots/list" }]));
  let asked = 0;
  const asker = async () => {
    asked++;
    return {};
  };
  await expect(answerAll(questions(101), asker, [])).rejects.toMatchObject({ code: "malformed_response" });
  expect(asked).toBe(0);
  expect(Object.keys(await answerAll(questions(100), asker, []))).toHaveLength(100);
});
