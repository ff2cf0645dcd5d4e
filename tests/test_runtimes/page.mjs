// Answers /job.json: texts -> scores by MediaPipe, or ids -> outputs by LiteRT.js.

const runners = {
  async mediapipe({ texts }) {
    const { FilesetResolver, TextClassifier } = await import("@mediapipe/tasks-text");
    const wasm = await FilesetResolver.forTextTasks("/packages/@mediapipe/tasks-text/wasm");
    const classifier = await TextClassifier.createFromOptions(wasm, {
      baseOptions: { modelAssetPath: "/files/model.tflite" },
    });
    const answers = texts.map((text) => {
      const [head] = classifier.classify(text).classifications;
      return Object.fromEntries(head.categories.map((c) => [c.categoryName, c.score]));
    });
    classifier.close();
    return { answers };
  },

  async embedder({ texts }) {
    const { FilesetResolver, TextEmbedder } = await import("@mediapipe/tasks-text");
    const wasm = await FilesetResolver.forTextTasks("/packages/@mediapipe/tasks-text/wasm");
    const embedder = await TextEmbedder.createFromOptions(wasm, {
      baseOptions: { modelAssetPath: "/files/model.tflite" },
    });
    const answers = texts.map((text) =>
      Array.from(embedder.embed(text).embeddings[0].floatEmbedding),
    );
    embedder.close();
    return { answers };
  },

  async litert({ examples }) {
    const { Tensor, loadAndCompile, loadLiteRt } = await import("@litertjs/core");
    await loadLiteRt("/packages/@litertjs/core/wasm/");
    const model = await loadAndCompile("/files/model.tflite", { accelerator: "wasm" });
    const answers = [];
    for (const { signature, inputs } of examples) {
      const tensors = Object.fromEntries(
        Object.entries(inputs).map(([name, values]) => [
          name,
          new Tensor(new Int32Array(values), [1, values.length]),
        ]),
      );
      const outputs = await model.run(signature, tensors);
      const answer = {};
      for (const [name, tensor] of Object.entries(outputs)) {
        answer[name] = Array.from(await tensor.data());
        tensor.delete();
      }
      Object.values(tensors).forEach((tensor) => tensor.delete());
      answers.push(answer);
    }
    model.delete();
    return { answers };
  },
};

let answer;
try {
  const job = await (await fetch("/job.json")).json();
  answer = await runners[job.runner](job);
} catch (error) {
  answer = { error: String(error?.stack ?? error) };
}
await fetch("/answer", { method: "POST", body: JSON.stringify(answer) });
