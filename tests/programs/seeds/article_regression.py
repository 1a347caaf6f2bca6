import numpy as np
from sklearn.linear_model import LinearRegression


def execute_analysis(data_x, data_y):
    """
    Simulates an agent using a tool to perform data analysis.
    The 'environment' is the Python interpreter itself.
    """
    try:
        # Reshape data for sklearn
        X = np.array(data_x).reshape(-1, 1)  # noqa: N806
        y = np.array(data_y)

        # Perform calculation
        model = LinearRegression().fit(X, y)
        return {"slope": model.coef_[0], "intercept": model.intercept_}
    except Exception as e:
        return {"error": str(e)}


# Sample data representing an agent's observation
x_vals = [1, 2, 3, 4, 5]
y_vals = [2, 4, 5, 4, 5]

# Execution result
result = execute_analysis(x_vals, y_vals)
print(f"slope {result['slope']:.1f}, intercept {result['intercept']:.1f}")

# expect stdout: "slope 0.6, intercept 2.2\n"
