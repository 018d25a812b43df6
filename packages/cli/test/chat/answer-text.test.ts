import { describe, expect, test } from "vitest";
import { AnswerText } from "../../src/chat/answer-text.ts";

function captureText(act: (text: AnswerText) => void): string {
  let out = "";
  act(
    new AnswerText((chunk) => {
      out += chunk;
    }),
  );
  return out;
}

describe("prints each character once", () => {
  test("for deltas that the complete text and the answer repeat", () => {
    const out = captureText((text) => {
      text.addChunk("Hel", 1, false);
      text.addChunk("lo", 1, false);
      text.addModelText("Hello");
      text.addAnswer("Hello");
    });
    expect(out).toBe("Hello\n");
  });

  test("for a provider that does not stream", () => {
    const out = captureText((text) => {
      text.addModelText("first");
      text.startNextCall();
      text.addModelText("second");
      text.addAnswer("second");
    });
    expect(out).toBe("first\nsecond\n");
  });

  test("for two model calls with the same text", () => {
    const out = captureText((text) => {
      text.addModelText("ok");
      text.startNextCall();
      text.addModelText("ok");
      text.addAnswer("ok");
    });
    expect(out).toBe("ok\nok\n");
  });

  test("for a text that is sent again from its beginning after a lost connection", () => {
    const out = captureText((text) => {
      text.addChunk("one ", 1, false);
      text.addChunk("one two three", 1, true);
      text.addChunk(" four", 1, false);
      text.addAnswer("one two three four");
    });
    expect(out).toBe("one two three four\n");
  });

  test("for a text whose end was missed and is read from the tape", () => {
    const out = captureText((text) => {
      text.addChunk("look", 1, false);
      text.addModelText("looking it up");
      text.startNextCall();
      text.addChunk("found", 2, false);
      text.addAnswer("found it");
    });
    expect(out).toBe("looking it up\nfound it\n");
  });

  test("for a complete text that arrives during the next call or after the answer", () => {
    const out = captureText((text) => {
      text.addChunk("one", 1, false);
      text.startNextCall();
      text.addChunk("two", 2, false);
      text.addModelText("one");
      text.addAnswer("two");
      text.addModelText("two");
    });
    expect(out).toBe("one\ntwo\n");
  });

  test("for a delta that arrives after the complete text", () => {
    const out = captureText((text) => {
      text.addModelText("all of it");
      text.addChunk("all of it", 1, false);
      text.addAnswer("all of it");
    });
    expect(out).toBe("all of it\n");
  });

  test("for an answer of the strategy that follows the text of the model", () => {
    const out = captureText((text) => {
      text.addChunk("thinking", 1, false);
      text.addAnswer("the answer");
    });
    expect(out).toBe("thinking\nthe answer\n");
  });

  test("for two turns with the same answer", () => {
    const out = captureText((text) => {
      text.addChunk("a", 1, false);
      text.addAnswer("a");
      text.addModelText("a");
      text.addChunk("a", 1, false);
      text.addAnswer("a");
    });
    expect(out).toBe("a\na\n");
  });
});
