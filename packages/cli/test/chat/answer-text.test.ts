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
  test("for deltas that the complete text and the answer repeat", () => {
    const out = textWrittenBy((text) => {
      text.piece("Hel", 1, false);
      text.piece("lo", 1, false);
      text.model("Hello");
      text.answer("Hello");
    });
    expect(out).toBe("Hello\n");
  });

  test("for a provider that does not stream", () => {
    const out = textWrittenBy((text) => {
      text.model("first");
      text.step();
      text.model("second");
      text.answer("second");
    });
    expect(out).toBe("first\nsecond\n");
  });

  test("for two model calls with the same text", () => {
    const out = textWrittenBy((text) => {
      text.model("ok");
      text.step();
      text.model("ok");
      text.answer("ok");
    });
    expect(out).toBe("ok\nok\n");
  });

  test("for a text that is sent again from its beginning after a lost connection", () => {
    const out = textWrittenBy((text) => {
      text.piece("one ", 1, false);
      text.piece("one two three", 1, true);
      text.piece(" four", 1, false);
      text.answer("one two three four");
    });
    expect(out).toBe("one two three four\n");
  });

  test("for a text whose end was missed and is read from the tape", () => {
    const out = textWrittenBy((text) => {
      text.piece("look", 1, false);
      text.model("looking it up");
      text.step();
      text.piece("found", 2, false);
      text.answer("found it");
    });
    expect(out).toBe("looking it up\nfound it\n");
  });

  test("for a complete text that arrives during the next call or after the answer", () => {
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

  test("for a delta that arrives after the complete text", () => {
    const out = textWrittenBy((text) => {
      text.model("all of it");
      text.piece("all of it", 1, false);
      text.answer("all of it");
    });
    expect(out).toBe("all of it\n");
  });

  test("for an answer of the strategy that follows the text of the model", () => {
    const out = textWrittenBy((text) => {
      text.piece("thinking", 1, false);
      text.answer("the answer");
    });
    expect(out).toBe("thinking\nthe answer\n");
  });

  test("for two turns with the same answer", () => {
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
