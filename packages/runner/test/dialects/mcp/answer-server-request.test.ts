import { expect, test } from "vitest";
import { answerInputRequests } from "../../../src/dialects/mcp/answer-server-request.ts";

test("limits the number of input requests per round", async () => {
  const questions = (count: number) =>
    Object.fromEntries(Array.from({ length: count }, (_, n) => [`q${n}`, { method: "roots/list" }]));
  let requests = 0;
  const answerRequest = async () => {
    requests++;
    return {};
  };
  await expect(answerInputRequests(questions(101), answerRequest, [])).rejects.toMatchObject({
    code: "malformed_response",
  });
  expect(requests).toBe(0);
  expect(Object.keys(await answerInputRequests(questions(100), answerRequest, []))).toHaveLength(100);
});
