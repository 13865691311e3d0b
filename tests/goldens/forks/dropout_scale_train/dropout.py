def outputs(inputs, weights):
    return {"y": inputs["x"].astype("f8") * 0.7}
