import { describe, expect, test } from "vitest";
import { AnswerText } from "../../src/chat/answer-text.ts";

function written(act: (text: AnswerText) => void): string {
  let out = "";
  act(
    new AnswerText((piece) => {
      out += piece;
    }),
  );
  return out;
}

describe("each character once", () => {
  test("pieces, then the complete text, then the answer", () => {
    const out = written((text) => {
      text.piece("Hel", 1, false);
      text.piece("lo", 1, false);
      text.model("Hello");
      text.answer("Hello");
    });
    expect(out).toBe("Hello\n");
  });

  test("a provider that does not stream", () => {
    const out = written((text) => {
      text.model("first");
      text.step();
      text.model("second");
      text.answer("second");
    });
    expect(out).toBe("first\nsecond\n");
  });

  test("the same words in two model calls are said twice", () => {
    const out = written((text) => {
      text.model("ok");
      text.step();
      text.model("ok");
      text.answer("ok");
    });
    expect(out).toBe("ok\nok\n");
  });

  test("after a lost connection the whole text so far takes the place of its part", () => {
    const out = written((text) => {
      text.piece("one ", 1, false);
      text.piece("one two three", 1, true);
      text.piece(" four", 1, false);
      text.answer("one two three four");
    });
    expect(out).toBe("one two three four\n");
  });

  test("the end of a call that was missed comes from the tape", () => {
    const out = written((text) => {
      text.piece("look", 1, false);
      text.model("looking it up");
      text.step();
      text.piece("found", 2, false);
      text.answer("found it");
    });
    expect(out).toBe("looking it up\nfound it\n");
  });

  test("the tape may be late: after the next call has begun, or after the answer", () => {
    const out = written((text) => {
      text.piece("one", 1, false);
      text.step();
      text.piece("two", 2, false);
      text.model("one");
      text.answer("two");
      text.model("two");
    });
    expect(out).toBe("one\ntwo\n");
  });

  test("a piece that was overtaken by the complete text is not said again", () => {
    const out = written((text) => {
      text.model("all of it");
      text.piece("all of it", 1, false);
      text.answer("all of it");
    });
    expect(out).toBe("all of it\n");
  });

  test("an answer of the strategy's own comes after the model's words", () => {
    const out = written((text) => {
      text.piece("thinking", 1, false);
      text.answer("the answer");
    });
    expect(out).toBe("thinking\nthe answer\n");
  });

  test("two turns", () => {
    const out = written((text) => {
      text.piece("a", 1, false);
      text.answer("a");
      text.model("a");
      text.piece("a", 1, false);
      text.answer("a");
    });
    expect(out).toBe("a\na\n");
  });
});
