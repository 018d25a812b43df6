import { describe, expect, test } from "vitest";
import { AnswerText } from "../../src/chat/answer-text.ts";

function textWrittenBy(act: (text: AnswerText) => void): string {
  let out = "";
  act(
    new AnswerText((piece) => {
      out += piece;
    }),
  );
  return out;
}

describe("prints each character once", () => {
  test("deltas, then the complete text, then the answer", () => {
    const out = textWrittenBy((text) => {
      text.piece("Hel", 1, false);
      text.piece("lo", 1, false);
      text.model("Hello");
      text.answer("Hello");
    });
    expect(out).toBe("Hello\n");
  });

  test("a provider that does not stream", () => {
    const out = textWrittenBy((text) => {
      text.model("first");
      text.step();
      text.model("second");
      text.answer("second");
    });
    expect(out).toBe("first\nsecond\n");
  });

  test("prints the same text of two model calls twice", () => {
    const out = textWrittenBy((text) => {
      text.model("ok");
      text.step();
      text.model("ok");
      text.answer("ok");
    });
    expect(out).toBe("ok\nok\n");
  });

  test("after a lost connection the whole text replaces its beginning", () => {
    const out = textWrittenBy((text) => {
      text.piece("one ", 1, false);
      text.piece("one two three", 1, true);
      text.piece(" four", 1, false);
      text.answer("one two three four");
    });
    expect(out).toBe("one two three four\n");
  });

  test("completes a missed text from the tape", () => {
    const out = textWrittenBy((text) => {
      text.piece("look", 1, false);
      text.model("looking it up");
      text.step();
      text.piece("found", 2, false);
      text.answer("found it");
    });
    expect(out).toBe("looking it up\nfound it\n");
  });

  test("accepts a late complete text during the next call or after the answer", () => {
    const out = textWrittenBy((text) => {
      text.piece("one", 1, false);
      text.step();
      text.piece("two", 2, false);
      text.model("one");
      text.answer("two");
      text.model("two");
    });
    expect(out).toBe("one\ntwo\n");
  });

  test("ignores a delta that arrives after the complete text", () => {
    const out = textWrittenBy((text) => {
      text.model("all of it");
      text.piece("all of it", 1, false);
      text.answer("all of it");
    });
    expect(out).toBe("all of it\n");
  });

  test("prints an answer of the strategy after the text of the model", () => {
    const out = textWrittenBy((text) => {
      text.piece("thinking", 1, false);
      text.answer("the answer");
    });
    expect(out).toBe("thinking\nthe answer\n");
  });

  test("two turns", () => {
    const out = textWrittenBy((text) => {
      text.piece("a", 1, false);
      text.answer("a");
      text.model("a");
      text.piece("a", 1, false);
      text.answer("a");
    });
    expect(out).toBe("a\na\n");
  });
});
