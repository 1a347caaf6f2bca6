    import pandas as pd
    df = pd.DataFrame({'a': [1, 2, 3], 'b': [4, 5, 6]})
    summary = df[['a', 'b']].agg(['min', 'max', 'mean']).to_dict()

# with result_var: summary
# expect result: {"a": {"min": 1.0, "max": 3.0, "mean": 2.0}, "b": {"min": 4.0, "max": 6.0, "mean": 5.0}}
# expect dataframes: ["df"]
